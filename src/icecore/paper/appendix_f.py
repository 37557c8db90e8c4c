"""Appendix F: the widths of explicit constructions beside the smallest widths that sufficed when trained."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from icecore.paper import evidence_of
from icecore.paper.fig7 import all_widths
from icecore.paper.init import initializations
from icecore.reporting.figures.widths import Point
from icecore.reporting.table import Table
from icecore.store.records import Records

if TYPE_CHECKING:
    from icecore.constructions import Constructed

TARGET = 99.0  # in %, of the median over seeds
UNFILTERED = "unfiltered"
LINES = ("Random", "Random, matched", "Normal")


@dataclass(frozen=True)
class Sufficient:
    """The smallest recorded width whose median test accuracy reaches the target, or the best that there is."""

    width: int | None
    too_narrow: int | None  # the next narrower width that was run
    best: float  # median in %
    best_width: int

    def __str__(self) -> str:
        if self.width is None:
            return f"none (best {self.best:.1f} at {self.best_width})"
        return str(self.width) if self.too_narrow is None else f"{self.width} ({self.too_narrow} fails)"


def sufficient_widths(records: Records) -> dict[str, dict[str, Sufficient]]:
    """Return the smallest sufficient width by task and line, from the runs of Figure 7 and of `init`.

    Parentheses stand there twice: test items include all short balanced strings, which filtered training data lack.
    """
    found = widths_with(records, "released")
    unfiltered = widths_with(records, UNFILTERED)
    return found | {f"{task}, {UNFILTERED}": lines for task, lines in unfiltered.items() if task == "parentheses"}


def widths_with(records: Records, preset: str) -> dict[str, dict[str, Sufficient]]:
    evidence = evidence_of(records, "paper", preset)
    points = [*initializations(evidence), *(point for point in all_widths(evidence) if point.line == "Normal")]
    found: dict[str, dict[str, Sufficient]] = {}
    for task in dict.fromkeys(point.task for point in points):
        lines = {line: [point for point in points if (point.task, point.line) == (task, line)] for line in LINES}
        found[task] = {line: sufficient(each) for line, each in lines.items() if each}
    return found


def sufficient(points: Sequence[Point]) -> Sufficient:
    medians = {point.width: statistics.median(point.values) for point in points}
    best = max(medians, key=lambda width: (medians[width], -width))
    enough = [width for width, median in medians.items() if median >= TARGET]
    width = min(enough, default=None)
    narrower = [each for each in medians if width is not None and each < width]
    return Sufficient(width, max(narrower, default=None), medians[best], best)


def widths_table(made: "Sequence[Constructed]", widths: Mapping[str, Mapping[str, Sufficient]]) -> Table:
    """Lay out constructed widths beside trained ones, for the tasks of these constructions."""
    rows = []
    for row, lines in widths.items():
        here = [one for one in made if one.construction.name == row.partition(",")[0]]
        if here:
            constructed = " or ".join(str(one.model.width) for one in here)
            trained = (str(lines.get(line, "not run")) for line in LINES)
            rows.append((row, constructed, here[0].construction.paper, *trained))
    title = f"Widths: constructed, and the smallest trained one whose median test accuracy is {TARGET:g} % or more"
    headings = ("task", "constructed", "paper's bound", *LINES)
    notes = (
        "Trained models are of the paper's size, with two layers and four heads. Matched: the gain of width 1024.",
    )
    return Table(title, headings, rows, left=("task",), notes=notes)
