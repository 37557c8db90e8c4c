"""Tables of `reproduce rank`: halfway ranks, accuracies, and which predictions held."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from icecore.paper.bodies_tables import Outcome, outcome, theory_table
from icecore.paper.pathway_predictions import (
    BODY_BASIS,
    FLAT_IN_WIDTH,
    LEARNED_BASIS,
    NEEDLE_NEEDS_MOST,
    SUBSPACE,
    TOKENS_NEED_MORE,
)
from icecore.paper.scales import FOUR
from icecore.reporting.ranks import HalfwayRank
from icecore.reporting.table import Table
from icecore.store.records import Record


@dataclass
class Curve:
    """Runs at several ranks of one task, arm and width."""

    task: str
    arm: str
    width: int
    baseline: float = 0.0
    accuracies: dict[int, dict[int, float]] = field(default_factory=dict)

    def add(self, rank: int, runs: Sequence[Record]) -> None:
        self.baseline = 100 * max(runs[0]["baselines"].values(), default=0.0)
        self.accuracies[rank] = {run["seed"]: 100 * run["accuracy"] for run in runs}

    @property
    def halfway(self) -> HalfwayRank | None:
        """Return the halfway rank; None with fewer than three ranks or without a common seed."""
        half = HalfwayRank(self.accuracies, self.baseline)
        return half if len(half.ranks) > 2 and half.seeds else None


def halfway_ranks(curves: Sequence[Curve]) -> Table:
    """Return a row per arm and width, a column per task."""
    tasks = list(dict.fromkeys(curve.task for curve in curves))
    known = {(curve.task, curve.arm, curve.width): curve.halfway for curve in curves}
    rows = [
        (arm, str(width), *(str(known.get((task, arm, width)) or "-") for task in tasks))
        for arm, width in dict.fromkeys((curve.arm, curve.width) for curve in curves)
    ]
    seeds = [len(half.seeds) for half in known.values() if half is not None]
    counts = f"{' to '.join(dict.fromkeys(map(str, (min(seeds), max(seeds)))))} seeds; " if seeds else ""
    return Table(
        "r*: rank at which accuracy is halfway between the baseline and 100 %",
        ("restricted", "width", *tasks),
        rows,
        left=("restricted", *tasks),
        notes=(
            f"{counts}r* of their median accuracies; in brackets its 95 % interval, or with fewer than 5 seeds the "
            "range of their own r*; < or >: beyond the ranks; a rank of the width restricts nothing",
        ),
    )


def accuracies(curves: Sequence[Curve], ranks: Sequence[int]) -> Table:
    """Return the median test accuracy of every cell."""
    rows = [
        (
            curve.task,
            curve.arm,
            str(curve.width),
            *(shown(curve.accuracies.get(rank)) for rank in ranks),
            f"{curve.baseline:.1f}",
        )
        for curve in curves
    ]
    headings = ("task", "restricted", "width", *map(str, ranks), "baseline")
    title = "Median test accuracy in % by rank"
    return Table(title, headings, rows, left=("task", "restricted"), secondary=("baseline",))


def shown(by_seed: dict[int, float] | None) -> str:
    return "-" if not by_seed else f"{statistics.median(by_seed.values()):.1f}"


def outcomes(curves: Sequence[Curve], widths: Sequence[int]) -> Table:
    """Return the predictions beside what was measured, over the tasks that have both sides of a comparison."""
    known = {(each.task, each.arm, each.width): half for each in curves if (half := each.halfway) is not None}
    tasks, first, count = list(dict.fromkeys(curve.task for curve in curves)), widths[0], len(FOUR)

    def over(arm: str, other: str) -> list[float]:
        """Return the ratios of r* of two arms, by task."""
        pairs = [(known.get((task, arm, first)), known.get((task, other, first))) for task in tasks]
        return [ratio for one, two in pairs if one and two and (ratio := ratio_of(one, two)) is not None]

    own = {task: half for task in tasks if (half := known.get((task, "random", first)))}
    most = max((half for task, half in own.items() if task != "needle"), key=lambda half: half.rank, default=None)
    needle = ratio_of(own["needle"], most) if "needle" in own and most else None
    spans = [spread(task, known, widths) for task in tasks]
    return theory_table(
        [
            outcome(FLAT_IN_WIDTH, max, [each for each in spans if each is not None], count),
            Outcome(NEEDLE_NEEDS_MOST, needle, len(own), count),
            outcome(LEARNED_BASIS, statistics.geometric_mean, over("learned", "random"), count),
            outcome(BODY_BASIS, statistics.geometric_mean, over("body", "random"), count),
            outcome(SUBSPACE, statistics.geometric_mean, over("subspace", "random"), count),
            outcome(TOKENS_NEED_MORE, statistics.geometric_mean, over("tokens alone", "U alone"), count),
        ],
        "Predictions about rank, by the halfway rank",
    )


def ratio_of(one: HalfwayRank, two: HalfwayRank) -> float | None:
    """Return the ratio of two r*, a bound if one lies beyond its ranks; None if both lie beyond on the same side."""
    return None if one.side == two.side != 0 else one.bound / two.bound


def spread(task: str, known: Mapping[tuple[str, str, int], HalfwayRank], widths: Sequence[int]) -> float | None:
    """Return the largest factor of r* between widths; None unless all are known and two can be compared.

    A width that fails with all of its directions has no r*.
    """
    each = {width: known.get((task, "random", width)) for width in widths}
    there = [half for width, half in each.items() if half and not (half.side == 1 and half.ranks[-1] >= width)]
    if None in each.values() or len(there) < 2:
        return None
    low, high = (pick(there, key=lambda half: half.rank) for pick in (min, max))
    return ratio_of(high, low)
