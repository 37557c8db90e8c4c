"""Tables of `reproduce thaw`: verdicts, scores of the causal measures, and which predictions held."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from icecore.paper.bodies_tables import outcome, theory_table
from icecore.paper.pathway_predictions import (
    FAST_REPLACES_MORE,
    GAIN_REPLACES,
    NORMAL_IS_OTHER,
    SHORT_HEAD_REPLACES,
    SLOW_REFINES,
)
from icecore.paper.scales import FOUR
from icecore.reporting.claim import Source
from icecore.reporting.pathway import answer_of, at_end, names_of
from icecore.reporting.table import Table
from icecore.store.records import Record, key_of

Point = dict[str, Any]  # one seed's measures at one step
NORMAL = "Normal"
MOVED = "displacement of the body"  # a measure


@dataclass(frozen=True)
class Thaw:
    """The tracks of one task, width and arm, one per seed."""

    task: str
    width: int
    arm: str
    records: tuple[Record, ...]

    @property
    def seeds(self) -> list[int]:
        return [record["seed"] for record in self.records]

    @cached_property
    def ends(self) -> list[Point]:
        """Return each seed's last point."""
        return [point for record in self.records for point in at_end(record["track"])]

    @cached_property
    def beside(self) -> list[Point]:
        """Return the points of full training from the same seeds."""
        return [point for record in self.records for point in record["track"]["beside"]]

    @property
    def answer(self) -> str:
        return answer_of(self.ends)[0]

    @property
    def mean_scores(self) -> tuple[float, ...]:
        return mean_scores(self.ends)

    def source(self, cell: str) -> Source:
        """Return the mean score of each seed that has one, with its run."""
        names = causal_names(self.ends)
        each = [
            (score, key_of(record)) for record in self.records for score in mean_scores(at_end(record["track"]), names)
        ]
        return Source(cell, tuple(score for score, _ in each), tuple(run for _, run in each))


def causal_names(points: Sequence[Point]) -> list[str]:
    return [name for name, is_causal in names_of(points).items() if is_causal] if points else []


def scores_of(points: Sequence[Point], name: str) -> tuple[float, ...]:
    """Return a measure's score per seed, of those that can tell."""
    return tuple(score for point in points if (score := point["measures"][name]["score"]) is not None)


def closeness(score: float) -> float:
    """Return how close a score is to that of an unchanged mechanism, from 0 to 1; one that exceeds it is farther."""
    return max(0.0, 1.0 - abs(1.0 - score))


def mean_scores(points: Sequence[Point], names: Sequence[str] | None = None) -> tuple[float, ...]:
    """Return per seed the mean closeness of the causal measures that can tell.

    Seeds where none can, and those that were or are no better than the baseline, are left out.
    """
    names = causal_names(points) if names is None else names
    solved = [point for point in points if all(point["above_baseline"].values())]
    each = [[closeness(score) for name in names for score in scores_of([point], name)] for point in solved]
    return tuple(statistics.fmean(own) for own in each if own)


def verdicts(found: Sequence[Thaw]) -> Table:
    """Return a row per task, width and arm: accuracy before and after, and the verdict."""
    rows = []
    for thaw in found:
        answer, counts = answer_of(thaw.ends)
        words = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        before, after = (median(point[key] for point in thaw.ends) for key in ("accuracy_before", "accuracy"))
        beside = with_range(mean_scores(thaw.beside))
        sizes = (thaw.task, str(thaw.width), thaw.arm, f"{100 * before:.1f}", f"{100 * after:.1f}", moved(thaw.ends))
        rows.append((*sizes, answer, words, with_range(thaw.mean_scores), beside, str(len(thaw.seeds))))
    headings = ("task", "width", "thaw", "before", "after", "moved", "mechanism", "measures", "score", NORMAL, "seeds")
    return Table(
        "Thaw: is the mechanism of the embeddings refined or replaced?",
        headings,
        rows,
        left=("task", "thaw", "mechanism", "measures"),
        notes=(
            "before, after: test accuracy in %; score: how close the causal measures are, in the mean, to those of an "
            "unchanged mechanism, 1; 0 is an unrelated network; median and range over seeds",
            "moved: |change| / |initial| of the body's matrices; a body that has hardly moved holds nothing new",
            f"{NORMAL}: the score of full training from the same initial weights",
        ),
        secondary=("seeds", "measures", "after", "before"),
    )


def scores(found: Sequence[Thaw]) -> Table:
    """Return a row per causal measure and thaw with its score: swaps, carry-over, patches and the loss barrier."""
    rows = [
        (thaw.task, str(thaw.width), thaw.arm, name, with_range(scores_of(thaw.ends, name)) or "cannot tell")
        for thaw in found
        for name in causal_names(thaw.ends)
    ]
    headings = ("task", "width", "thaw", "measure", "score")
    title = "Scores of the causal measures, median and range over seeds"
    return Table(title, headings, rows, left=("task", "thaw", "measure"))


def moved(points: Sequence[Point]) -> str:
    """Return how far the body has moved, the median over seeds."""
    each = [found["here"] for point in points if (found := point["measures"].get(MOVED)) is not None]
    return f"{statistics.median(each):.3f}" if each else ""


def median(values: Any) -> float:
    return statistics.median(values)


def with_range(values: Sequence[float]) -> str:
    if not values:
        return ""
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    middle = f"{statistics.median(values):.2f}"
    return middle if low == high else f"{middle} ({low} to {high})"


def outcomes(found: Sequence[Thaw], rates: Sequence[str], rescaled: str, widths: Sequence[int]) -> Table:
    """Return the predictions beside what was measured. Rates ascend; the first width is the wider body."""
    slow, middle, fast = rates
    wide, narrow = widths
    tasks = list(dict.fromkeys(thaw.task for thaw in found))
    own = {(thaw.task, thaw.width, thaw.arm): statistics.median(thaw.mean_scores) for thaw in found if thaw.mean_scores}
    full: dict[str, float] = {}  # the highest of the arms
    for thaw in found:
        if thaw.width == wide and (each := mean_scores(thaw.beside)):
            full[thaw.task] = max(statistics.median(each), full.get(thaw.task, 0.0))

    def gap(first: tuple[int, str], second: tuple[int, str]) -> list[float]:
        """Return the differences of the scores of two arms, by task."""
        pairs = [(own.get((task, *first)), own.get((task, *second))) for task in tasks]
        return [one - two for one, two in pairs if one is not None and two is not None]

    slowest = [own[key] for task in tasks if (key := (task, wide, slow)) in own]
    shortened = [each for width in widths for each in gap((width, middle), (width, rescaled))]
    count = len(FOUR)
    return theory_table(
        [
            outcome(SLOW_REFINES, min, slowest, count),
            outcome(FAST_REPLACES_MORE, statistics.fmean, gap((wide, slow), (wide, fast)), count),
            outcome(GAIN_REPLACES, statistics.fmean, gap((wide, middle), (narrow, middle)), count),
            outcome(SHORT_HEAD_REPLACES, statistics.fmean, shortened, count * len(widths)),
            outcome(NORMAL_IS_OTHER, max, [*full.values()], count),
        ],
        "Predictions about thaws, by medians",
    )
