"""Figure 7: accuracy against width. The paper draws box plots and prints no number."""

from icecore.paper.accuracy import accuracy_claims
from icecore.paper.cells import PaperCell
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment, Figure
from icecore.paper.scales import FOUR, WIDTHS, Scale
from icecore.reporting.claim import percentage
from icecore.reporting.figures.widths import Point, chart_widths, draw_widths
from icecore.store.records import Record, key_of
from icecore.sweeps.names import TRAINED, CellName


def cells(scale: Scale, preset: str) -> list[PaperCell]:
    return [
        scale.cell(CellName(task, kind, width), preset)
        for task in (*FOUR[1:], FOUR[0])
        for kind in TRAINED
        for width in WIDTHS
    ]


def points_of(cells: list[PaperCell], lines: list[str], evidence: Evidence) -> dict[str, Point]:
    """Return the recorded points by setting; `lines` has the line of each cell."""
    recorded = [
        (cell, line, runs) for cell, line in zip(cells, lines, strict=True) if (runs := all_draws(cell, evidence))
    ]
    widths = tuple(sorted({width_of(cell, evidence) for cell in cells})) if recorded else ()
    found: dict[str, Point] = {}
    for cell, line, runs in recorded:
        width, baseline = width_of(cell, evidence), 100 * max(runs[0]["baselines"].values(), default=0.0)
        seeds, keys = tuple(run["seed"] for run in runs), tuple(map(key_of, runs))
        values = tuple(map(percentage, runs))
        found[cell.setting] = Point(cell.name.task, line, width, values, baseline, widths, seeds, keys)
    return found


def all_draws(cell: PaperCell, evidence: Evidence) -> list[Record]:
    """Return a cell's records over all data seeds, as Table 1 counts them."""
    return [run for _, runs in evidence.draws(cell) for run in runs]


def width_of(cell: PaperCell, evidence: Evidence) -> int:
    """Return the trained width; at the paper's scale, the name's."""
    return cell.name.width if evidence.scale == "paper" and cell.name.width else cell.made.model.width


def all_widths(evidence: Evidence) -> list[Point]:
    cells = FIG7.of(evidence)
    return list(points_of(cells, [cell.name.kind for cell in cells], evidence).values())


FIG7 = Experiment(
    "fig7",
    "accuracy against width",
    cells,
    accuracy_claims,
    {"fig7": Figure("Figure 7: accuracy against width", all_widths, draw_widths, chart_widths)},
    columns="width",
    has_presets=True,
)
