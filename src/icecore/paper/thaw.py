"""Thaw: embeddings train around a random body, then the body trains too. Refined or replaced? Not in the paper.

Four tasks x two widths x {three rates, the middle one with U's initial norm}, each measured at its snapshots
(`icecore track`), beside full training from the same seeds. At the wider body embeddings alone solve the four tasks; at
the narrower one they leave something to gain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from icecore.paper.cells import PaperCell
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment, Figure
from icecore.paper.origins import WIDTHS, changed_cell, matched_cell
from icecore.paper.scales import FOUR, Scale
from icecore.paper.thaw_tables import NORMAL, Thaw, causal_names, outcomes, scores, scores_of, verdicts
from icecore.reporting.claim import Claim, median_of, without_verdict
from icecore.reporting.figures.heat import HeatCell, draw_heat
from icecore.reporting.table import Table
from icecore.sweeps.names import CellName

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

    from icecore.sweeps.cells import Cell


@dataclass(frozen=True)
class Arm:
    """One way to thaw: a rate, and whether U starts with its initial norm."""

    rate: float
    rescales_unembed: bool = False

    def __str__(self) -> str:
        return f"rate {self.rate:g}" + (", U rescaled" if self.rescales_unembed else "")


@dataclass(frozen=True)
class Size:
    """Training and measurements of thaws at a scale. Steps are the task's own, as in full training, if None."""

    rates: tuple[float, float, float]
    steps: int | None
    snapshots: int
    items: int

    @property
    def arms(self) -> list[Arm]:
        return [*map(Arm, self.rates), Arm(self.rates[1], rescales_unembed=True)]


SIZES = {
    "paper": Size((1e-4, 3e-4, 1e-3), 5_000, 8, 1_000),
    "laptop": Size((1e-4, 1e-3, 5e-3), None, 4, 300),
}


def name_of(task: str, width: int, arm: Arm) -> CellName:
    return CellName(task, "Thawed", width, variant=str(arm))


def cells(scale: Scale, preset: str) -> list[PaperCell]:
    return [
        thawed_cell(scale, preset, task, width, arm)
        for width in WIDTHS[scale.name]
        for arm in SIZES[scale.name].arms
        for task in FOUR
    ]


def thawed_cell(scale: Scale, preset: str, task: str, width: int, arm: Arm) -> PaperCell:
    size = SIZES[scale.name]
    random, normal = (matched_cell(scale, preset, task, kind, width) for kind in ("Random", "Normal"))

    def thaw(full: "Cell") -> "Cell":
        from icecore.sweeps.cells import Origin, Tracking

        steps = {} if size.steps is None else {"steps": size.steps}
        return replace(
            full,
            training={**full.training, **steps, "lr": arm.rate},
            origin=Origin(random.made, "all", "unembed" if arm.rescales_unembed else None),
            tracking=Tracking(size.snapshots, size.items, normal.made),
        )

    return changed_cell(normal, name_of(task, width, arm), thaw)


def thaws(experiment: Experiment, evidence: Evidence) -> list[Thaw]:
    """Return what was measured, by task, width and arm."""
    return [
        Thaw(cell.name.task, cell.name.width or 0, cell.name.variant, tuple(records))
        for cell in experiment.of(evidence)
        if (records := evidence.tracks(cell))
    ]


def claims(experiment: Experiment, evidence: Evidence) -> list[Claim]:
    """Return each arm's score: the mean over the causal measures, from 0, replaced, to 1, refined."""
    known = {(thaw.task, thaw.width, thaw.arm): thaw for thaw in thaws(experiment, evidence)}
    found = []
    for cell in experiment.of(evidence):
        thaw = known.get((cell.name.task, cell.name.width or 0, cell.name.variant))
        values = () if thaw is None else thaw.mean_scores
        ours = median_of(values)
        found.append(
            Claim(
                experiment.name,
                f"{cell.label}: score",
                None,
                ours,
                values,
                None,
                "",
                "not in the paper",
                without_verdict(1.0 if thaw is not None else None),
                digits=2,
                note="" if thaw is None else thaw.answer,
                seeds=0 if thaw is None else len(thaw.seeds),
                setting=cell.setting,
                sources=() if thaw is None else (thaw.source(cell.label),),
            )
        )
    return found


def tables(experiment: Experiment, evidence: Evidence) -> list[Table]:
    found, size = thaws(experiment, evidence), SIZES[evidence.scale]
    by_rate = [str(Arm(rate)) for rate in size.rates]
    return [verdicts(found), scores(found), outcomes(found, by_rate, str(size.arms[-1]), WIDTHS[evidence.scale])]


def heat(evidence: Evidence) -> list[HeatCell]:
    """Return each causal measure's score, in a panel per task and width; the last column is full training."""
    found: dict[str, list[HeatCell]] = {}
    for thaw in thaws(THAW, evidence):
        panel = f"{thaw.task}, width {thaw.width}"
        full = [cell for cell in found.pop(panel, []) if cell.column != NORMAL]
        found[panel] = [*full, *column_of(panel, thaw.arm, thaw.ends), *column_of(panel, NORMAL, thaw.beside)]
    return [cell for own in found.values() for cell in own]


def column_of(panel: str, arm: str, points: Sequence[dict[str, Any]]) -> list[HeatCell]:
    cells = [(name, scores_of(points, name)) for name in causal_names(points)]
    return [HeatCell(panel, name, arm, values, "" if values else "?") for name, values in cells]


def draw(points: Sequence[HeatCell], title: str) -> "Drawn":
    legend = (
        "1, blue: as an unchanged mechanism; 0, orange: as an unrelated network; ?: cannot tell; medians over seeds"
    )
    return draw_heat(points, title, legend, diverges=True)


THAW = Experiment(
    "thaw",
    "from random to trained: is the mechanism refined or replaced? (not in the paper)",
    cells,
    claims,
    {"thaw": Figure("Does training the body refine or replace the mechanism? Scores of causal measures", heat, draw)},
    tables=tables,
)
