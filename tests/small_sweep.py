"""A sweep that takes seconds, for tests of sweeps and records."""

from pathlib import Path

from icecore.models import Transformer
from icecore.store import Records
from icecore.sweeps import runner
from icecore.sweeps.cells import Cell
from icecore.sweeps.names import CellName
from icecore.tasks import ModularAddition, Needle

SMALL = {"steps": 6, "batch": 16, "warmup_steps": 2}
CELLS = [
    Cell(
        CellName("modular-addition", "Random"),
        ModularAddition(modulus=11),
        Transformer(width=8),
        "embeddings",
        "released",
        SMALL,
    ),
    Cell(
        CellName("needle", "Normal"),
        Needle(max_pairs=2, values=9, vocabulary=20, test_size=20),
        Transformer(width=8),
        "all",
        "released",
        SMALL,
    ),
]


def sweep(results: Path, runs: Path, seeds: int = 2, cells: list[Cell] = CELLS) -> list[str]:
    """The labels of what was trained."""
    done: list[str] = []
    records = Records(results)
    populations = runner.missing(cells, seeds, records, "fp32", "cpu")
    failures = runner.run_missing(
        populations, records, runs, "cpu", "fp32", lambda _: lambda _: None, lambda one, _: done.append(one.label)
    )
    assert not failures
    return done
