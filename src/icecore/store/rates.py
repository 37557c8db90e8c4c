"""Learning rates that were tried on validation items: a line per cell and rate, beside the records."""

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from icecore.errors import require
from icecore.store.agreement import TOLERANCE, disagreements
from icecore.store.lines import append_lines, numbered_lines

NAME = "rates.jsonl"


@dataclass(frozen=True)
class TriedRate:
    """Validation accuracies of a cell at one rate. The key names setting, rate, precision and seeds."""

    key: str
    cell: str
    of: str  # the cell's setting at its own rate
    lr: float
    seeds: list[int]
    accuracy: list[float]

    @classmethod
    def parsed(cls, line: str) -> "TriedRate | None":
        """Return a line's rate; None if it is damaged: it is tried again."""
        try:
            found = cls(**json.loads(line))
            names = isinstance(found.key, str) and isinstance(found.cell, str) and isinstance(found.of, str)
            numbers = [float(found.lr), *map(float, found.accuracy)]
            is_whole = all(type(seed) is int for seed in found.seeds) and len(found.seeds) == len(found.accuracy) > 0
        except (ValueError, TypeError, RecursionError):
            return None
        is_right = names and is_whole and math.isfinite(numbers[0]) and all(0 <= each <= 1 for each in numbers[1:])
        return found if is_right else None

    @property
    def median(self) -> float:
        return statistics.median(self.accuracy)


def tried_rates(folder: Path) -> dict[str, TriedRate]:
    """Return what was tried under `folder`, by key."""
    found: dict[str, TriedRate] = {}
    for _, line in numbered_lines(folder / NAME):
        tried = TriedRate.parsed(line)
        if tried is not None:
            found.setdefault(tried.key, tried)
    return found


def require_agreement(folder: Path, rates: Iterable[TriedRate]) -> None:
    """Raise if one of `rates` contradicts what was tried under `folder`, or another one."""
    known = tried_rates(folder)
    for tried in rates:
        before = known.setdefault(tried.key, tried)
        wrong = disagreements(asdict(before), asdict(tried))
        require(
            not wrong,
            f"{tried.cell} at rate {tried.lr:g} is in {folder / NAME} with another result: {', '.join(wrong[:3])} "
            f"({TOLERANCE}); nothing was added",
        )


def add_rates(folder: Path, rates: Iterable[TriedRate]) -> int:
    """Append those whose key is not there; return their number."""
    own = {each.key: each for each in rates}
    if not own:
        return 0

    def fresh() -> list[dict[str, object]]:
        there = tried_rates(folder)
        return [asdict(each) for each in own.values() if each.key not in there]

    return append_lines(folder / NAME, fresh)


def chosen_rates(folder: Path) -> dict[str, float]:
    """Return the best rate of each setting that was tried under `folder`; among equals, the lowest."""
    tried: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in tried_rates(folder).values():
        tried[one.of][one.lr] += one.accuracy
    return {of: best_of({lr: statistics.median(each) for lr, each in found.items()}) for of, found in tried.items()}


def best_of(accuracies: dict[float, float]) -> float:
    """Return the rate with the best accuracy; among equals, the lowest."""
    return max(accuracies, key=lambda lr: (accuracies[lr], -lr))
