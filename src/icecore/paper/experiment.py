"""A table or figure of the paper: its cells, claims and drawing."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from icecore.errors import InputError
from icecore.paper.cells import PaperCell, Variation
from icecore.paper.evidence import Evidence
from icecore.paper.scales import PRESETS, SCALES, Scale
from icecore.reporting.chart import Chart
from icecore.reporting.claim import Claim
from icecore.reporting.table import Table
from icecore.store.records import Record
from icecore.sweeps.names import CellName

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn


@dataclass(frozen=True)
class Figure:
    """A figure from stored records: its title, its points, how to draw them and how to chart them in the page."""

    title: str
    points: Callable[[Evidence], list[Any]]
    draw: "Callable[[list[Any], str], Drawn]"
    chart: Callable[[list[Any], str], Chart] | None = None  # without it the page shows the drawing


@dataclass(frozen=True)
class Experiment:
    """A table or figure. Without `cells`, `missing` says how to get it."""

    name: str
    title: str
    cells: Callable[[Scale, str], list[PaperCell]] | None = None  # at a scale and with a preset
    claims: "Callable[[Experiment, Evidence], list[Claim]] | None" = None
    figures: dict[str, Figure] = field(default_factory=dict)
    runs: "Callable[[Experiment, Evidence], list[Record]] | None" = None  # default: those of its cells
    missing: str = ""
    analysis: str = ""  # of `icecore analyze`, which shows it
    needs_text: bool = False  # cells need a prepared text
    columns: Literal["model", "width", "variant"] = "model"  # its columns; rows are the rest of the names
    has_presets: bool = False  # its table can have a row per preset
    has_rates: bool = False  # its cells may take the best of several rates
    tables: "Callable[[Experiment, Evidence], list[Table]] | None" = None  # shown instead of a row per claim

    @property
    def heading(self) -> str:
        """Return `Table 1` for table1 and `Figure 7` for fig7."""
        numbered = re.fullmatch(r"(table|fig)(\d+)", self.name)
        if numbered is None:
            return self.name.replace("_", " ").capitalize()
        return f"{'Table' if numbered[1] == 'table' else 'Figure'} {numbered[2]}"

    def at(self, scale: str, preset: str, text: Path | None = None) -> list[PaperCell]:
        """Return its cells, if any; `text` replaces the scale's prepared text."""
        return [] if self.cells is None else self.cells(SCALES[scale].with_text(text), preset)

    def of(self, evidence: Evidence) -> list[PaperCell]:
        cells = self.at(evidence.scale, evidence.preset)
        if not self.has_rates or not evidence.rates:
            return cells
        return [replace(cell, rate=evidence.rates.get(cell.setting)) for cell in cells]

    def claims_of(self, evidence: Evidence) -> list[Claim]:
        return [] if self.claims is None else self.claims(self, evidence)

    def runs_of(self, evidence: Evidence) -> list[Record]:
        """Return the records behind it."""
        if self.runs is not None:
            return self.runs(self, evidence)
        return [run for cell in self.of(evidence) for run in evidence.runs(cell)]

    def changed(self, cell: PaperCell, evidence: Evidence) -> list[Variation]:
        """Return the variations of a cell: with other presets, and those of the evidence."""
        with_presets = [
            Variation(cell.name, f"--preset {preset}", other)
            for preset in PRESETS
            for other in self.at(evidence.scale, preset)
            if preset != evidence.preset and other.name == cell.name and other.setting != cell.setting
        ]
        return with_presets + [
            variation
            for vary in evidence.variations
            for variation in vary(SCALES[evidence.scale], evidence.preset)
            if variation.base == cell.name
        ]

    def place(self, name: CellName) -> tuple[str, str]:
        """Return a cell's row and column in the table."""
        if self.columns == "width":
            return f"{name.task}, {name.line}", str(name.width)
        if self.columns == "variant":
            return str(replace(name, variant="")), name.variant
        return name.task, name.column


def draw(name: str, figure: Figure, experiment: str, evidence: Evidence, paths: Sequence[Path]) -> list[Any]:
    """Draw a figure into files; return its points, curves or bars, whose `values` are one per run."""
    from icecore.drawing import write

    points = figure.points(evidence)
    if not points:
        raise InputError(
            f"no runs of {name} are recorded in {evidence.records.path}; icecore reproduce {experiment} --scale "
            f"{evidence.scale} --preset {evidence.preset} trains them"
        )
    try:
        write(figure.draw(points, figure.title), paths)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot draw {', '.join(map(str, paths))}: {error}") from error
    return points
