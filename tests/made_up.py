"""Made-up records, for tests of what is done with them."""

from pathlib import Path

from icecore.store import Records
from icecore.sweeps.cells import Cell


def record(run: str = "a", accuracy: float = 0.5, **more: object) -> dict[str, object]:
    return {"run": run, "accuracy": accuracy, "seconds": 1.0, "device": "cpu", **more}


def record_of(cell: Cell, seed: int, accuracy: float, precision: str = "bf16") -> dict[str, object]:
    config = cell.config((seed,), precision)
    made = {"setting": cell.setting, "seed": seed, "config": config.as_json(), "floors": {"a rule": 0.2}}
    return record(config.run_id, accuracy, **made)


def recorded(folder: Path, cells: list[Cell], seeds: int = 3) -> None:
    """Made-up results of some cells."""
    for index, cell in enumerate(cells):
        for seed in range(seeds):
            Records(folder).append([record_of(cell, seed, 0.1 * (index % 9) + 0.01 * seed)])
