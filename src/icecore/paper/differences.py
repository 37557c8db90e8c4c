"""Why a number of ours differs from the paper's, as far as the records say: noise, or one thing that was changed."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Protocol

from icecore.paper.cells import Variation
from icecore.paper.numbers import KnownReason, Number, Tolerance
from icecore.reporting.claim import Precisions, of_most_seeds, precision_of, seeds_in_words
from icecore.store.records import Record

FEW = 3  # fewer seeds are no ground to look for reasons
LEVEL = 0.95

Changed = Mapping[Variation, Precisions]  # what was recorded of a cell with one thing changed


class Printed(Protocol):
    """A number of the paper with its tolerance."""

    @property
    def paper(self) -> float: ...

    @property
    def tolerance(self) -> Tolerance: ...


def reasons_for(
    number: Number, known: KnownReason | None, preset: str, each: Precisions, changed: Changed
) -> list[str]:
    """Return notes on a number that differs, from the cell's records and those of it `changed`.

    It is explained by what is known of the cell, by its seeds' spread, or by enough seeds with the paper's number: of
    the cell in another precision, with another preset or in another mode of the scripts. A rate that the paper did
    not use is a hint on the cell, and no explanation of the paper's number.
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
            is_explained |= variation.can_explain and explains(found, number)
            also = "" if precision_of(runs) == precision_of(counted) else f" in {precision_of(runs)}"
            others.append(f"with {variation.change}{also}: {median_in_words(found)}")
    return (notes if is_explained else [unexplained(len(values))]) + others


def share_reasons(share: Printed, seeds: int, changed: Mapping[Variation, list[float]]) -> list[str]:
    """Return notes on a share of variance that differs, of so many seeds, from each seed's with a change."""
    notes = [f"with {variation.change}: {median_in_words(found)}" for variation, found in changed.items() if found]
    is_explained = any(variation.can_explain and explains(found, share) for variation, found in changed.items())
    return notes if is_explained else [unexplained(seeds), *notes]


def median_in_words(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f}, {seeds_in_words(len(values))}"


def unexplained(seeds: int) -> str:
    return f"{seeds_in_words(seeds)} so far" if seeds < FEW else "unexplained"


def percentages(runs: Sequence[Record], number: Number) -> list[float]:
    return [100 * run[number.accuracy] for run in runs if number.accuracy in run]


def explains(values: Sequence[float], number: Printed) -> bool:
    return len(values) >= FEW and abs(statistics.median(values) - number.paper) <= number.tolerance.points


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return an interval of the population's median: each seed is above it with probability 1/2. None below 6 seeds."""
    ordered, count = sorted(values), len(values)
    tail = 0.0
    for rank in range(count // 2):
        tail += math.comb(count, rank) / 2**count
        if 2 * tail > 1 - LEVEL:
            return (ordered[rank - 1], ordered[count - rank]) if rank > 0 else None
    return None
