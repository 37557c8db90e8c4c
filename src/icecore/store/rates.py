"""Learning rates that were tried on validation items: a line per cell and rate, beside the records."""

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from icecore.errors import require
from icecore.store.agreement import TOLERANCE, disagreements
from icecore.store.lines import append_lines, numbered_lines
from icecore.store.record_schema import is_count, is_number, is_share
from icecore.store.records import Warn, ignore

NAME = "rates.jsonl"


@dataclass(frozen=True)
class TriedRate:
    """Validation accuracies of a cell at one rate."""

    key: str  # names the setting at this rate, the precision and the seeds
    cell: str
    of: str  # the cell's setting at its own rate: cells that differ in it alone share keys
    lr: float
    seeds: list[int]
    accuracy: list[float]

    @classmethod
    def parsed(cls, line: str) -> "TriedRate | None":
        """Return a line's rate; None if it is damaged."""
        try:
            found = cls(**json.loads(line))
        except (ValueError, TypeError, RecursionError):
            return None
        are_names = all(isinstance(name, str) for name in (found.key, found.cell, found.of))
        are_lists = isinstance(found.seeds, list) and isinstance(found.accuracy, list)
        if not (are_names and are_lists and is_number(found.lr) and found.lr > 0):
            return None
        is_right = all(map(is_count, found.seeds)) and all(map(is_share, found.accuracy))
        return found if is_right and len(found.seeds) == len(found.accuracy) > 0 else None

    @property
    def place(self) -> tuple[str, str]:
        return self.key, self.of

    @property
    def median(self) -> float:
        return statistics.median(self.accuracy)


def read_rates(folder: Path, warn: Warn = ignore) -> list[TriedRate]:
    """Return what was tried under `folder`; skip damaged lines, with a warning that names each."""
    found = []
    for number, line in numbered_lines(folder / NAME):
        tried = TriedRate.parsed(line)
        if tried is None:
            warn(f"{folder / NAME}, line {number} is damaged and skipped")
        else:
            found.append(tried)
    return found


def tried_rates(folder: Path) -> dict[tuple[str, str], TriedRate]:
    """Return what was tried under `folder`, by place; of two results the first."""
    return first_by_place(read_rates(folder))


def first_by_place(rates: Iterable[TriedRate]) -> dict[tuple[str, str], TriedRate]:
    found: dict[tuple[str, str], TriedRate] = {}
    for tried in rates:
        found.setdefault(tried.place, tried)
    return found


def require_agreement(folder: Path, rates: Iterable[TriedRate]) -> None:
    """Raise if one of `rates` contradicts what was tried under `folder`, or another one."""
    known = {tried.key: tried for tried in tried_rates(folder).values()}
    for tried in rates:
        before = known.setdefault(tried.key, tried)
        wrong = disagreements([before.lr, before.accuracy], [tried.lr, tried.accuracy])
        require(
            not wrong,
            f"{tried.cell} at rate {tried.lr:g} is in {folder / NAME} with another result: validation accuracy "
            f"{before.median:.4f} and {tried.median:.4f} ({TOLERANCE}); nothing was added",
        )


def add_rates(folder: Path, rates: Iterable[TriedRate]) -> int:
    """Append those whose place is not there; return their number."""
    own = first_by_place(rates)
    if not own:
        return 0

    def fresh() -> list[dict[str, object]]:
        there = tried_rates(folder)
        return [asdict(each) for place, each in own.items() if place not in there]

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
