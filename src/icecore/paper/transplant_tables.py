"""Tables and figure of `reproduce transplant`: bodies in rows, tasks in columns."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from icecore.paper.bodies_tables import outcome, percentages, rate_of_runs, spelled, theory_table, with_interval
from icecore.paper.pathway_predictions import LANGUAGE_HELPS_NEEDLE, OTHERS_DO_NOT_HELP, OWN_BODY_HELPS
from icecore.paper.scales import FOUR
from icecore.reporting.figures.heat import HeatCell, draw_heat
from icecore.reporting.table import Table
from icecore.reporting.verdict import interval_of, resampled_combined
from icecore.store.records import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RANDOM, LANGUAGE = "random", "language"
SIZES = 2  # widths of a scale


@dataclass(frozen=True)
class Moved:
    """Runs of new embeddings for a task around a body."""

    task: str
    body: str
    width: int
    runs: tuple[Record, ...]

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(percentages(self.runs))

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def baseline(self) -> float:
        return 100 * max(self.runs[0]["baselines"].values(), default=0.0)


def widths_of(found: Sequence[Moved]) -> list[int]:
    return list(dict.fromkeys(moved.width for moved in found))


def moved_table(found: Sequence[Moved], width: int) -> Table:
    """Return accuracies of one width: a row per body, a column per task."""
    here = {(moved.body, moved.task): moved for moved in found if moved.width == width}
    tasks, bodies = (list(dict.fromkeys(each)) for each in zip(*((task, body) for body, task in here), strict=True))
    best = {task: moved.baseline for (_, task), moved in here.items()}
    rows = [("best baseline", *(f"{best[task]:.1f}" for task in tasks), "")]
    for body in bodies:
        own = [here[body, task] for task in tasks if (body, task) in here]
        texts = [with_interval(here[body, task].values) if (body, task) in here else "-" for task in tasks]
        rows.append((body, *texts, spelled({rate_of_runs(each.runs) for each in own})))
    return Table(
        f"Width {width}: test accuracy in % of new embeddings around a frozen body, median (95 % interval, or range of "
        "fewer than 5 seeds)",
        ("body trained on", *tasks, "rate"),
        rows,
        left=("body trained on",),
        notes=("each cell at its best rate on validation items; on the diagonal the body has trained on these",),
        secondary=("rate",),
    )


def differences(found: Sequence[Moved]) -> Table:
    """Return by how much each body is better than a random one of the same width, in points."""
    rows, tasks = [], list(dict.fromkeys(moved.task for moved in found))
    for width in widths_of(found):
        here = {(moved.body, moved.task): moved for moved in found if moved.width == width}
        for body in dict.fromkeys(body for body, _ in here if body != RANDOM):
            texts = []
            for task in tasks:
                pair = here.get((body, task)), here.get((RANDOM, task))
                texts.append("-" if pair[0] is None or pair[1] is None else better(pair[0].values, pair[1].values))
            rows.append((str(width), body, *texts))
    return Table(
        "Points above a random body of the same width, difference of medians",
        ("width", "body trained on", *tasks),
        rows,
        left=("body trained on",),
        notes=("in brackets the 95 % interval over seeds of both; none with fewer than 5 seeds",),
    )


def better(ours: Sequence[float], theirs: Sequence[float]) -> str:
    difference = statistics.median(ours) - statistics.median(theirs)
    drawn = resampled_combined("difference", (ours, theirs))
    if drawn is None:
        return f"{difference:+.1f}"
    low, high = interval_of(drawn)
    return f"{difference:+.1f} ({low:+.1f} to {high:+.1f})"


def outcomes(found: Sequence[Moved]) -> Table:
    """Return the predictions beside what was measured."""
    medians = {(moved.width, moved.body, moved.task): moved.median for moved in found}
    own, others, to_needle = [], [], []
    for (width, body, task), value in medians.items():
        control = medians.get((width, RANDOM, task))
        if body == RANDOM or control is None:
            continue
        if body == LANGUAGE:
            to_needle += [value - control] if task == "needle" else []
        else:
            (own if body == task else others).append(value - control)
    count = len(FOUR)
    return theory_table(
        [
            outcome(OWN_BODY_HELPS, min, own, count * SIZES),
            outcome(OTHERS_DO_NOT_HELP, statistics.fmean, others, count * (count - 1) * SIZES),
            outcome(LANGUAGE_HELPS_NEEDLE, max, to_needle, SIZES),
        ],
        "Predictions about transplants, by medians",
    )


def heat(found: Sequence[Moved]) -> list[HeatCell]:
    return [HeatCell(f"width {moved.width}", moved.body, moved.task, moved.values) for moved in found]


def draw_moved(points: Sequence[HeatCell], title: str) -> "Figure":
    legend = "test accuracy in %, medians over seeds; rows: what the frozen body was trained on"
    return draw_heat(points, title, legend, 100.0, digits=1)
