"""The paper's accuracies with their tolerances.

The tolerances of tables 1, 2 and 9 were fixed before any result of this size was recorded, but not in ignorance: one
unfinished run of needle, Random 1024, had been seen to solve it, and a replication's figures for some cells were known.
The laptop's line was set after the demo at those sizes, before its other cells were run.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icecore.sweeps.names import CellName


@dataclass(frozen=True)
class Tolerance:
    """In points of accuracy, and why."""

    points: float
    reason: str


SOLVED = Tolerance(1.0, "a task that is solved stays solved: restarts differ by tenths")
FAILED = Tolerance(2.0, "near chance: a few test items")
BETWEEN = Tolerance(5.0, "restarts differ by points; the paper gives no spread, and its random numbers are not ours")
BIMODAL = Tolerance(10.0, "restarts end far apart, and a median of ten moves with one of them")
LAPTOP_LINE = 95.0  # a laptop's tasks are smaller, so only the side of this line is compared


def tolerance_for(paper: float) -> Tolerance:
    return SOLVED if paper >= 98 else FAILED if paper <= 5 else BETWEEN


@dataclass(frozen=True)
class Number:
    """One number of the paper, in %: its cell, and which accuracy of a run it is."""

    cell: CellName
    paper: float
    tolerance: Tolerance
    accuracy: str = "accuracy"


@dataclass(frozen=True)
class KnownReason:
    """Why a number is lower than the paper's, and with which presets by how many points at most."""

    why: str
    points: Mapping[str, float]

    def accounts_for(self, number: Number, values: Sequence[float], preset: str) -> bool:
        missing = number.paper - statistics.median(values)
        return preset in self.points and 0 < missing <= self.points[preset] + number.tolerance.points


def numbers(
    rows: Mapping[str, Sequence[float]], columns: Sequence[tuple[str, int | None]], accuracy: str = "accuracy"
) -> list[Number]:
    """Read rows as the paper prints them: a task's numbers by column, each a kind and a width."""
    return [
        Number(CellName(task, kind, width), value, tolerance_for(value), accuracy)
        for task, values in rows.items()
        for (kind, width), value in zip(columns, values, strict=True)
    ]
