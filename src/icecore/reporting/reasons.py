"""Why a number of ours differs from the paper's, as far as the records say: noise, or one thing that was changed."""

import functools
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from icecore.reporting.claim import Precisions, of_most_seeds, precision_of, seeds_in_words
from icecore.reporting.paper_numbers import KNOWN, Number, Share
from icecore.store import Record
from icecore.sweeps.cells import Cell
from icecore.sweeps.entries import ENTRIES
from icecore.sweeps.paper import PRESETS
from icecore.sweeps.scales import SCALES
from icecore.sweeps.variations import VARIATIONS

FEW = 3  # fewer seeds are no ground to look for reasons
LEVEL = 0.95
RATE = "lr "  # begins the name of such a change


def changed_cells(name: str, scale: str, preset: str) -> dict[str, dict[str, Cell]]:
    """By the label of an entry's cell, the same with another preset or as a variation has it, such as its rate."""
    entry = ENTRIES[name]
    own = {cell.label: cell.setting for cell in entry.at(scale, preset)}
    found: dict[str, dict[str, Cell]] = defaultdict(dict)
    for other in PRESETS:
        for cell in entry.at(scale, other):
            if cell.setting != own.get(cell.label, cell.setting):
                found[cell.label][f"--preset {other}"] = cell
    for label, change, cell in varied_cells(scale, preset):
        found[label][change] = cell
    return found


@functools.cache
def varied_cells(scale: str, preset: str) -> list[tuple[str, str, Cell]]:
    """Of each variation the label of the cell it is of, what is changed, and the cell."""
    return [
        (
            str(replace(cell.name, more="", rate=None)),
            cell.name.more if cell.name.rate is None else f"{RATE}{cell.name.rate:g}",
            cell,
        )
        for vary in VARIATIONS
        for cell in vary(SCALES[scale], preset)
    ]


def reasons_of(label: str, number: Number, preset: str, each: Precisions, changed: dict[str, Precisions]) -> list[str]:
    """Notes on a number that differs, from the cell's records and those of it `changed`.

    It is explained by what is known of the cell, by its seeds' spread, or by as many seeds as are a ground, of the
    cell in another precision, with another preset or in another mode of the scripts, that have the paper's number. A
    rate that the paper did not use is a hint on the cell, and no explanation of the paper's number.
    """
    counted = of_most_seeds(each)
    values = percentages(counted, number)
    known = [KNOWN[label].why] if label in KNOWN and KNOWN[label].accounts_for(number, values, preset) else []
    interval = median_interval(values)
    if interval is not None and interval[0] <= number.paper <= interval[1]:
        known.append(f"within the {LEVEL:.0%} interval of our median, {interval[0]:.1f} to {interval[1]:.1f}")
    is_explained = bool(known) or any(explains(percentages(runs, number), number) for runs in each.values())
    notes: list[str] = []
    for change, others in changed.items():
        runs = others.get(precision_of(counted)) or of_most_seeds(others)
        found = percentages(runs, number)
        if found:
            is_explained |= not change.startswith(RATE) and explains(found, number)
            also = "" if precision_of(runs) == precision_of(counted) else f" in {precision_of(runs)}"
            notes.append(f"with {change}{also}: {statistics.median(found):.1f}, {seeds_in_words(len(found))}")
    if not is_explained:
        known = [unexplained(len(values))]
    return known + notes


def share_reasons(share: Share, seeds: int, changed: dict[str, list[float]]) -> list[str]:
    """Notes on a share of variance that differs, of so many seeds, from each seed's with a change."""
    notes = [
        f"with {change}: {statistics.median(found):.1f}, {seeds_in_words(len(found))}"
        for change, found in changed.items()
        if found
    ]
    is_explained = any(explains(found, share) for change, found in changed.items() if not change.startswith(RATE))
    return notes if is_explained else [unexplained(seeds), *notes]


def unexplained(seeds: int) -> str:
    return f"{seeds_in_words(seeds)} so far" if seeds < FEW else "unexplained"


def percentages(runs: Sequence[Record], number: Number) -> list[float]:
    return [100 * run[number.accuracy] for run in runs if number.accuracy in run]


def explains(values: Sequence[float], number: Number | Share) -> bool:
    return len(values) >= FEW and abs(statistics.median(values) - number.paper) <= number.tolerance.points


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Of the population's median, by counting: each seed is above it with probability 1/2. None of less than 6."""
    ordered, count = sorted(values), len(values)
    tail = 0.0
    for rank in range(count // 2):
        tail += math.comb(count, rank) / 2**count
        if 2 * tail > 1 - LEVEL:
            return (ordered[rank - 1], ordered[count - rank]) if rank > 0 else None
    return None
