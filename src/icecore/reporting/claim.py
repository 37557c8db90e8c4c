"""One number of the paper beside ours, and the records that ours come from."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from icecore.store import Record, Records

PRECISIONS = ("fp32", "tf32", "bf16")  # the record of a seed that counts is the first of these


@dataclass(frozen=True)
class Claim:
    """In % of accuracy, or what `cell` says; `paper`, `tolerance` and a verdict where there is something to judge."""

    name: str
    cell: str
    paper: float | None
    ours: float | None  # the median
    n: int
    spread: tuple[float, float] | None  # smallest and largest
    floor: float | None  # the best rule that needs no learning
    tolerance: str
    reason: str
    verdict: str  # reproduced, differs, not run, or nothing to compare with
    digits: int = 1  # after the point, where it is shown
    note: str = ""  # such as another's number


def median_of(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def spread_of(values: Sequence[float]) -> tuple[float, float] | None:
    return (min(values), max(values)) if values else None


def verdict_of(ours: float | None, agrees: bool) -> str:
    return "not run" if ours is None else "reproduced" if agrees else "differs"


def without_verdict(ours: float | None) -> str:
    return "not run" if ours is None else "nothing to compare with"


def seeds_by_setting(records: Records) -> dict[str, list[Record]]:
    """Of each setting one record a seed."""
    ranked: list[tuple[int, str, int, Record]] = []
    for record in records.by_run().values():
        try:
            precision, setting, seed = record["config"]["precision"], record["setting"], record["seed"]
            ranked.append((PRECISIONS.index(precision), setting, seed, record))
        except (KeyError, TypeError, ValueError):
            records.warn(f"{records.path}: the record of run {record['run']} is damaged and skipped")
    chosen: dict[tuple[str, int], Record] = {}
    for _, setting, seed, record in sorted(ranked, key=lambda one: one[0]):
        chosen.setdefault((setting, seed), record)
    found: dict[str, list[Record]] = defaultdict(list)
    for (setting, _), record in sorted(chosen.items()):
        found[setting].append(record)
    return found
