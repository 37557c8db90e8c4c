"""Tables of `reproduce rank`: halfway ranks, accuracies, and which predictions held."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from icecore.paper.bodies_tables import theory_table
from icecore.paper.pathway_predictions import (
    BODY_BASIS,
    FLAT_IN_WIDTH,
    LEARNED_BASIS,
    NEEDLE_NEEDS_MOST,
    SUBSPACE,
    TOKENS_NEED_MORE,
)
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
    counts = f"{min(seeds)} to {max(seeds)} seeds; " if seeds else ""
    return Table(
        "r*: rank at which accuracy is halfway between the baseline and 100 %",
        ("restricted", "width", *tasks),
        rows,
        left=("restricted", *tasks),
        notes=(f"{counts}in brackets the 95 % interval, or the range of fewer than 5 seeds; < or >: beyond the ranks",),
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
    known = {(curve.task, curve.arm, curve.width): bounded(curve.halfway) for curve in curves}
    tasks, first = list(dict.fromkeys(curve.task for curve in curves)), widths[0]

    def over(arm: str, other: str) -> list[float]:
        """Return the ratios of r* of two arms, by task."""
        pairs = [(known.get((task, arm, first)), known.get((task, other, first))) for task in tasks]
        return [one / two for one, two in pairs if one and two]

    across = [[r for width in widths if (r := known.get((task, "random", width)))] for task in tasks]
    spans = [max(each) / min(each) for each in across if len(each) == len(widths)]
    own = {task: r for task in tasks if (r := known.get((task, "random", first)))}
    others = [r for task, r in own.items() if task != "needle"]
    return theory_table(
        [
            (FLAT_IN_WIDTH, of(max, spans)),
            (NEEDLE_NEEDS_MOST, own["needle"] / max(others) if "needle" in own and others else None),
            (LEARNED_BASIS, of(statistics.geometric_mean, over("learned", "random"))),
            (BODY_BASIS, of(statistics.geometric_mean, over("body", "random"))),
            (SUBSPACE, of(statistics.geometric_mean, over("subspace", "random"))),
            (TOKENS_NEED_MORE, of(statistics.geometric_mean, over("tokens alone", "U alone"))),
        ],
        "Predictions about rank, by r*",
    )


def bounded(half: HalfwayRank | None) -> float | None:
    """Return r*, at most a factor of 2 beyond the ranks that were run."""
    return None if half is None else half.rank


def of(combine: Callable[[list[float]], float], values: list[float]) -> float | None:
    return combine(values) if values else None
