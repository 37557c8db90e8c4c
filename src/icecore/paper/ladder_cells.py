"""Cells of the ladder: what is trained at each rung, width and scale."""

import functools
from typing import TYPE_CHECKING, Any, Literal

from icecore.paper.cells import PaperCell
from icecore.paper.ladder_grid import KINDS, RUNGS, TARGET, WIDTHS, Rung
from icecore.sweeps.names import TRAINABLE_OF

if TYPE_CHECKING:
    from icecore.sweeps.cells import Cell

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
def cells_by_place(scale: str, preset: str) -> dict[tuple[int, Rung, str], PaperCell]:
    """Return the cells by width, rung and kind, the narrowest first."""
    return {
        (width, rung, kind): PaperCell(
            rung.name(kind, width), scale, preset, functools.partial(make_cell, rung, kind, width, scale, preset)
        )
        for width in WIDTHS[scale]
        for rung in RUNGS[scale]
        for kind in KINDS
    }


def make_cell(rung: Rung, kind: str, width: int, scale: str, preset: str) -> "Cell":
    from icecore.models import Transformer
    from icecore.sweeps.cells import Cell
    from icecore.tasks import make_task

    task = make_task(rung.task, settings=rung.settings)
    pairs = task.without_validation().train_set()
    training = TRAINING[scale]
    if pairs is not None:  # a batch has each pair at most once
        training = training | {"batch": min(training["batch"], len(pairs))}
    return Cell(
        rung.name(kind, width),
        task,
        Transformer(width=width, layers=rung.layers, init=INIT[kind]),
        TRAINABLE_OF[kind],
        preset,
        {**training, "lr": RATES[scale][kind][0]},
        rates=RATES[scale][kind],
        enough=TARGET / 100,
    )
