"""The paper's accuracies with their tolerances.

The tolerances of tables 1, 2 and 9 were fixed before any result of this size was recorded, but not blindly: one
unfinished run of needle, Random 1024, had been seen to solve it, and a replication's results for some cells were known.
The laptop threshold was set after the demo at those sizes, before the other laptop cells were run.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icecore.sweeps.names import CellName


@dataclass(frozen=True)
class Tolerance:
    """A tolerance in points of accuracy, and its reason."""

    points: float
    reason: str


SOLVED = Tolerance(1.0, "a solved task stays solved: restarts differ by tenths")
FAILED = Tolerance(2.0, "near chance: a few test items")
BETWEEN = Tolerance(5.0, "restarts differ by points; the paper gives no spread and uses other random numbers")
BIMODAL = Tolerance(10.0, "restarts end far apart, and one of them can move a median of ten")
LAPTOP_LINE = 95.0  # laptop tasks are smaller, so only the side of this threshold is compared


def tolerance_for(paper: float) -> Tolerance:
    return SOLVED if paper >= 98 else FAILED if paper <= 5 else BETWEEN


@dataclass(frozen=True)
class Number:
    """One number of the paper in %, its cell, and the kind of accuracy."""

    cell: CellName
    paper: float
    tolerance: Tolerance
    accuracy: str = "accuracy"


@dataclass(frozen=True)
class KnownReason:
    """A known reason for a number below the paper's, and the most points it explains, by preset."""

    why: str
    points: Mapping[str, float]

    def accounts_for(self, number: Number, values: Sequence[float], preset: str) -> bool:
        missing = number.paper - statistics.median(values)
        return preset in self.points and 0 < missing <= self.points[preset] + number.tolerance.points


def numbers(
    rows: Mapping[str, Sequence[float]], columns: Sequence[tuple[str, int | None]], accuracy: str = "accuracy"
) -> list[Number]:
    """Read rows as the paper prints them: a row per task, a column per kind and width."""
    return [
        Number(CellName(task, kind, width), value, tolerance_for(value), accuracy)
        for task, values in rows.items()
        for (kind, width), value in zip(columns, values, strict=True)
    ]
