"""The paper's cells, named without torch and built when needed: a table of stored results builds none."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from icecore.paper.settings import known_setting
from icecore.sweeps.names import CellName

if TYPE_CHECKING:
    from icecore.sweeps.cells import Cell


@dataclass(frozen=True)
class PaperCell:
    """A cell at a scale and with a preset: its name, and how to build it."""

    name: CellName
    scale: str
    preset: str
    make: "Callable[[], Cell]" = field(compare=False, repr=False)
    rate: float | None = None  # instead of the preset's

    @property
    def label(self) -> str:
        return str(self.name)

    @functools.cached_property
    def made(self) -> "Cell":
        made = self.make()
        training = made.training if self.rate is None else made.training | {"lr": self.rate}
        return replace(made, name=self.name, training=training)

    @functools.cached_property
    def setting(self) -> str:
        """Return the setting of its runs; at the paper's scale, cached between commands."""
        if self.scale != "paper":
            return self.made.setting
        rate = "" if self.rate is None else f", lr {self.rate:g}"
        return known_setting(f"{self.preset}: {self.label}{rate}", lambda: self.made.setting)


@dataclass(frozen=True)
class Variation:
    """A cell with one thing changed. A change that the authors may have made can explain a difference."""

    base: CellName
    change: str
    cell: PaperCell
    can_explain: bool = True
    is_redraw: bool = False  # other draws of the same training data: its runs count as restarts of the base


def vary(
    base: PaperCell, change: str, apply: "Callable[[Cell], Cell]", can_explain: bool = True, is_redraw: bool = False
) -> Variation:
    """Return a cell with one thing changed."""
    name = replace(base.name, variant=", ".join(filter(None, (base.name.variant, change))))
    cell = PaperCell(name, base.scale, base.preset, lambda: apply(base.made))
    return Variation(base.name, change, cell, can_explain, is_redraw)
