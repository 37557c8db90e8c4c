"""Reasons why a number differs from the paper's, from the records: noise, or one changed setting."""

import math
import statistics
from collections.abc import Container, Mapping, Sequence
from typing import Protocol

from icecore.paper.cells import Variation
from icecore.paper.numbers import KnownReason, Number, Tolerance
from icecore.paper.predictions import PREDICTED_PRESET, predicted
from icecore.reporting.claim import Precisions, of_most_seeds, precision_of, seeds_in_words
from icecore.store.records import Record
from icecore.sweeps.names import CellName

FEW = 3  # with fewer seeds, no reason is looked for
LEVEL = 0.95

Changed = Mapping[Variation, Precisions]  # records of a cell with one thing changed


class Printed(Protocol):
    """A number of the paper with its tolerance."""

    @property
    def paper(self) -> float: ...

    @property
    def tolerance(self) -> Tolerance: ...


def reasons_for(
    number: Number,
    known: KnownReason | None,
    preset: str,
    each: Precisions,
    changed: Changed,
    confirmed: Container[str] = (),
) -> list[str]:
    """Return notes on a number that differs, from the cell's records and those of its variations.

    A difference is explained by a known reason, by the spread of our seeds, by enough seeds that match the paper in
    another precision, or by a `confirmed` change of preset or mode that matches it too. Other changes are hints.
    """
    counted = of_most_seeds(each)
    values = percentages(counted, number)
    notes = [known.why] if known is not None and known.accounts_for(number, values, preset) else []
    interval = median_interval(values)
    if interval is not None and interval[0] <= number.paper <= interval[1]:
        notes.append(f"within the {LEVEL:.0%} interval of our median, {interval[0]:.1f} to {interval[1]:.1f}")
    is_explained = bool(notes) or any(explains(percentages(runs, number), number) for runs in each.values())
    others: list[str] = []
    for variation, precisions in changed.items():
        runs = precisions.get(precision_of(counted)) or of_most_seeds(precisions)
        found = percentages(runs, number)
        if found:
            is_explained |= variation.change in confirmed and explains(found, number)
            also = "" if precision_of(runs) == precision_of(counted) else f" in {precision_of(runs)}"
            others.append(f"with {variation.change}{also}: {median_in_words(found)}")
    return (notes if is_explained else [unexplained(len(values))]) + others


def share_reasons(
    share: Printed, seeds: int, changed: Mapping[Variation, list[float]], confirmed: Container[str] = ()
) -> list[str]:
    """Return notes on a share of variance that differs; `changed` has its value per seed under each variation."""
    notes = [f"with {variation.change}: {median_in_words(found)}" for variation, found in changed.items() if found]
    is_explained = any(variation.change in confirmed and explains(found, share) for variation, found in changed.items())
    return notes if is_explained else [unexplained(seeds), *notes]


Matches = Sequence[tuple[CellName, Sequence[str]]]  # a cell that differs, and the changes that give the paper's number


def confirmed_for(name: str, label: str, cell: CellName, matches: Matches) -> set[str]:
    """Return the changes that were predicted, or that also give the paper's number in another cell that differs.

    A change that was tried because one cell differs explains nothing by matching that cell: with enough changes one
    matches by chance. Numbers of one cell count once, since they come from the same runs.
    """
    prediction = predicted(PREDICTED_PRESET, name, label)
    is_predicted = prediction is not None and prediction.expected == "within"
    elsewhere = {change for other, changes in matches if other != cell for change in changes}
    return elsewhere | ({f"--preset {PREDICTED_PRESET}"} if is_predicted else set())


def median_in_words(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f}, {seeds_in_words(len(values))}"


def unexplained(seeds: int) -> str:
    return f"{seeds_in_words(seeds)} so far" if seeds < FEW else "unexplained"


def percentages(runs: Sequence[Record], number: Number) -> list[float]:
    return [100 * run[number.accuracy] for run in runs if number.accuracy in run]


def explains(values: Sequence[float], number: Printed) -> bool:
    return len(values) >= FEW and abs(statistics.median(values) - number.paper) <= number.tolerance.points


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return a confidence interval of the median, which a seed exceeds with probability 1/2. None below 6 seeds."""
    ordered, count = sorted(values), len(values)
    tail = 0.0
    for rank in range(count // 2):
        tail += math.comb(count, rank) / 2**count
        if 2 * tail > 1 - LEVEL:
            return (ordered[rank - 1], ordered[count - rank]) if rank > 0 else None
    return None
