"""The ladder: how hard a task can a random transformer do, and how wide must it be? Not in the paper.

Sixteen tasks at several difficulties x widths x {Random with the gain of width 1024, Normal}. Each cell takes its best
of some rates, chosen on validation items. Widths are tried from the narrowest until the median of the seeds reaches the
target. The smallest sufficient width is read off the test items: it is the result, and nothing else is chosen there.
"""

from icecore.paper.cells import PaperCell
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment, Figure
from icecore.paper.ladder_cells import cells_by_place
from icecore.paper.ladder_figure import draw_ladder, marks
from icecore.paper.ladder_grid import RUNGS, WIDTHS
from icecore.paper.ladder_outcomes import guesses, order
from icecore.paper.ladder_steps import runs_by_place, steps_of
from icecore.paper.ladder_table import ladder_table, width_claims
from icecore.paper.scales import Scale
from icecore.reporting.claim import Claim
from icecore.reporting.table import Table
from icecore.store.records import Record


def cells(scale: Scale, _preset: str) -> list[PaperCell]:
    return list(cells_by_place(scale.name).values())


def claims(experiment: Experiment, evidence: Evidence) -> list[Claim]:
    return width_claims(experiment.name, RUNGS[evidence.scale], steps_of(evidence))


def runs(_experiment: Experiment, evidence: Evidence) -> list[Record]:
    return [run for by_width in runs_by_place(evidence).values() for each in by_width.values() for run in each]


def tables(_experiment: Experiment, evidence: Evidence) -> list[Table]:
    """Return the ladder and which predictions held; the guesses are about the paper's scale."""
    steps = steps_of(evidence)
    found = [ladder_table(steps, len(RUNGS[evidence.scale]), WIDTHS[evidence.scale][-1]), order(steps)]
    return [*found, guesses(steps)] if evidence.scale == "paper" else found


LADDER_EXPERIMENT = Experiment(
    "ladder",
    "smallest sufficient width on tasks of graded difficulty (not in the paper)",
    cells,
    claims,
    {
        "ladder": Figure(
            "Smallest width with 99 % of answer tokens right: Random beside Normal, by coordinates", marks, draw_ladder
        )
    },
    runs=runs,
    columns="width",
    has_rates=True,
    tables=tables,
)
