"""Cells of the ladder: what is trained at each rung, width and scale."""

import functools
from typing import TYPE_CHECKING, Any, Literal

from icecore.paper.cells import PaperCell
from icecore.paper.ladder_grid import KINDS, RUNGS, TARGET, WIDTHS, Rung
from icecore.paper.scales import PRESETS
from icecore.sweeps.names import TRAINABLE_OF

if TYPE_CHECKING:
    from icecore.sweeps.cells import Cell
    from icecore.tasks import Task

# A laptop's small batches and few steps need higher rates, as its recipes for the paper's tasks do.
RATES = {
    "paper": {"Random": (5e-3, 2e-2), "Normal": (1e-3, 5e-3)},
    "laptop": {"Random": (1e-2, 3e-2), "Normal": (3e-3, 1e-2)},
}
INIT: dict[str, Literal["matched", "released"]] = {"Random": "matched", "Normal": "released"}
TRAINING: dict[str, dict[str, Any]] = {
    "paper": {"steps": 4_000, "batch": 512, "warmup_steps": 200},
    "laptop": {"steps": 600, "batch": 64, "warmup_steps": 50},
}


@functools.cache
def cells_by_place(scale: str) -> dict[tuple[int, Rung, str], PaperCell]:
    """Return the cells by width, rung and kind, the narrowest first. They are the same with every preset."""
    return {
        (width, rung, kind): PaperCell(
            rung.name(kind, width), scale, PRESETS[0], functools.partial(make_cell, rung, kind, width, scale)
        )
        for width in WIDTHS[scale]
        for rung in RUNGS[scale]
        for kind in KINDS
    }


def make_cell(rung: Rung, kind: str, width: int, scale: str) -> "Cell":
    from icecore.models import Transformer
    from icecore.sweeps.cells import Cell

    task, training = task_of(rung, scale)
    return Cell(
        rung.name(kind, width),
        task,
        Transformer(width=width, layers=rung.layers, init=INIT[kind]),
        TRAINABLE_OF[kind],
        PRESETS[0],
        {**training, "lr": RATES[scale][kind][0]},
        rates=RATES[scale][kind],
        enough=TARGET / 100,
    )


@functools.cache
def task_of(rung: Rung, scale: str) -> "tuple[Task, dict[str, Any]]":
    """Return a rung's task and training settings. A batch has each item of a finite training set at most once."""
    from icecore.tasks import make_task

    task = make_task(rung.task, settings=rung.settings)
    training = TRAINING[scale]
    if task.train_set() is None:
        return task, training
    pairs = task.without_validation().train_set()
    assert pairs is not None
    return task, training | {"batch": min(training["batch"], len(pairs))}
