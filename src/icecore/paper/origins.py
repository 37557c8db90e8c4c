"""Cells of the experiments about trained bodies: bodies of known widths, with the gain of width 1024."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from icecore.paper.cells import PaperCell
from icecore.paper.scales import Scale
from icecore.sweeps.names import CellName

if TYPE_CHECKING:
    from icecore.sweeps.cells import Cell

MATCHED = "matched"
# Laptop widths are those of the models, not of the paper's that they stand for.
WIDTHS = {"paper": (512, 64), "laptop": (128, 32)}  # at the first a random body solves the four tasks


def matched_cell(scale: Scale, preset: str, task: str, kind: str, width: int) -> PaperCell:
    """Return the cell of a body whose matrices have the gain of width 1024."""
    name = CellName(task, kind, width, variant=MATCHED)
    return scale.cell(name, preset, model={"width": width, "init": MATCHED})


def changed_cell(base: PaperCell, name: CellName, change: "Callable[[Cell], Cell]") -> PaperCell:
    """Return the cell of another name that a change makes of a base."""
    return PaperCell(name, base.scale, base.preset, lambda: replace(change(base.made), name=name))
