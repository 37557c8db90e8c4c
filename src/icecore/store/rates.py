"""Learning rates that were tried on validation items: one file per cell and rate, beside the records."""

import statistics
from collections import defaultdict
from pathlib import Path

from icecore.errors import InputError
from icecore.store.files import read_json

RATES = "rates"


def chosen_rates(folder: Path) -> dict[str, float]:
    """Return the best rate of each setting that was tried under `folder`; among equals, the lowest."""
    tried: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted((folder / RATES).glob("*.json")):
        try:
            one = read_json(path)
            tried[str(one["of"])][float(one["lr"])] += map(float, one["accuracy"])
        except (InputError, KeyError, TypeError, ValueError):
            continue  # a rate of an older version, or damaged: it is tried again
    return {of: best_of({lr: statistics.median(each) for lr, each in found.items()}) for of, found in tried.items()}


def best_of(accuracies: dict[float, float]) -> float:
    """Return the rate with the best accuracy; among equals, the lowest."""
    return max(accuracies, key=lambda lr: (accuracies[lr], -lr))
