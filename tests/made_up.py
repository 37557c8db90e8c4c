"""Made-up records, for tests of what is done with them."""

from pathlib import Path

from icecore.paper import EXPERIMENTS
from icecore.store import Records
from icecore.sweeps.cells import Cell


def cells_at(name: str, scale: str = "paper", preset: str = "released") -> list[Cell]:
    """Make the cells of a table or figure."""
    return [cell.made for cell in EXPERIMENTS[name].at(scale, preset)]


def record(run: str = "a", accuracy: float = 0.5, **more: object) -> dict[str, object]:
    return {"run": run, "accuracy": accuracy, "seconds": 1.0, "device": "cpu", **more}


def record_of(cell: Cell, seed: int, accuracy: float, precision: str = "bf16") -> dict[str, object]:
    config = cell.config((seed,), precision)
    made = {"setting": cell.setting, "seed": seed, "config": config.as_json(), "baselines": {"a rule": 0.2}}
    return record(config.run_id, accuracy, **made)


def recorded(folder: Path, cells: list[Cell], seeds: int = 3) -> None:
    """Made-up results of some cells."""
    for index, cell in enumerate(cells):
        for seed in range(seeds):
            Records(folder).append([record_of(cell, seed, 0.1 * (index % 9) + 0.01 * seed)])


def bits(accuracy: float, trained: int, total: int) -> dict[str, float]:
    """As a record has them; by the loss, half of what the accuracy says."""
    memorized_bits = accuracy * 262_144 * 9
    return {
        "accuracy_bits": memorized_bits,
        "loss_bits": memorized_bits / 2,
        "accuracy_bits_per_trained": memorized_bits / trained,
        "loss_bits_per_trained": memorized_bits / 2 / trained,
        "accuracy_bits_per_parameter": memorized_bits / total,
        "loss_bits_per_parameter": memorized_bits / 2 / total,
    }


def remember(folder: Path, cell: Cell, seed: int, accuracy: float, **more: object) -> None:
    config = cell.config((seed,), "bf16")
    made = {"setting": cell.setting, "seed": seed, "config": config.as_json(), "baselines": {"chance": 1 / 512}}
    Records(folder).append([record(config.run_id, accuracy, **made, **more)])


def remember_table3(folder: Path, normal: float, random: float, scale: str = "paper", preset: str = "released") -> None:
    for cell in cells_at("table3", scale, preset):
        end, trained = (normal, 659_584) if cell.trainable == "all" else (random, 262_784)
        curve = {"steps": [100, 200, 300, 1000], "accuracy": [0.0, 0.5 * end, end, end]}
        for seed in range(5):
            more = {"curve": curve, "capacity": bits(end, trained, 659_584), "trained_parameters": trained}
            remember(folder, cell, seed, end, **more)
