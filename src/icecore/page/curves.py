"""Curves of a run, thinned so that thousands fit into one page."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from icecore.store.record_schema import is_number

Series = dict[str, dict[str, Any]]  # by measured number: steps, and a list of values per seed
DIGITS = 4


def series_of(rows: Iterable[dict[str, Any]], seeds: int, most: int) -> Series:
    """Return each number that was logged for every seed, at no more than `most` steps."""
    found: dict[str, list[tuple[int, list[float]]]] = {}
    for row in rows:
        for name, values in row.items():
            if isinstance(values, list) and len(values) == seeds and all(map(is_number, values)):
                found.setdefault(name, []).append((row["step"], values))
    return {name: thinned(sorted(pairs, key=lambda pair: pair[0]), seeds, most) for name, pairs in found.items()}


def thinned(pairs: Sequence[tuple[int, list[float]]], seeds: int, most: int) -> dict[str, Any]:
    """Return every k-th row and the last one: measured values, none of them averaged."""
    stride = max(1, math.ceil(len(pairs) / most))
    kept = [pair for index, pair in enumerate(pairs) if (len(pairs) - 1 - index) % stride == 0]
    return {
        "steps": [step for step, _ in kept],
        "values": [[short(values[seed]) for _, values in kept] for seed in range(seeds)],
        "every": stride,
    }


def short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
