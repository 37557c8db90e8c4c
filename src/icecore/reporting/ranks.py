"""The rank at which accuracy is halfway from the baseline to 100 %: a logistic curve over the logarithm of the rank."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icecore.reporting.verdict import LEAST_SEEDS, interval_of

RESAMPLES, SEED = 2_000, 20241
HALF = 0.5
BEYOND = 1.0  # doublings: a curve may be halfway this far outside of the ranks that were run
STEEPNESS = np.geomspace(0.5, 16.0, 24)  # of the curve, per doubling of the rank
RESOLUTION = 0.05  # of the halfway rank, in doublings

Heights = NDArray[np.float64]  # by curve and rank: 0 is the baseline, 1 is 100 %


@dataclass(frozen=True)
class HalfwayRank:
    """Accuracies in % by rank and seed, around a baseline in %."""

    accuracies: Mapping[int, Mapping[int, float]]
    baseline: float

    @property
    def ranks(self) -> list[int]:
        return sorted(self.accuracies)

    @property
    def seeds(self) -> list[int]:
        """Return the seeds that every rank has."""
        return sorted(set.intersection(*(set(each) for each in self.accuracies.values())))

    @functools.cached_property
    def heights(self) -> Heights:
        """Return each seed's heights by rank."""
        rows = [[self.accuracies[rank][seed] for rank in self.ranks] for seed in self.seeds]
        return np.clip((np.asarray(rows) - self.baseline) / (100.0 - self.baseline), 0.0, 1.0)

    @functools.cached_property
    def rank(self) -> float:
        """Return the halfway rank of the mean over seeds."""
        return float(halfway(self.ranks, self.heights.mean(axis=0)[None])[0])

    @functools.cached_property
    def by_seed(self) -> tuple[float, ...]:
        return tuple(map(float, halfway(self.ranks, self.heights)))

    @functools.cached_property
    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval over resampled seeds; of few seeds their range."""
        count = len(self.seeds)
        if count < LEAST_SEEDS:
            return min(self.by_seed), max(self.by_seed)
        drawn = np.random.default_rng((SEED, count)).integers(count, size=(RESAMPLES, count))
        return interval_of(halfway(self.ranks, self.heights[drawn].mean(axis=1)))

    @property
    def is_inside(self) -> bool:
        """Tell whether the ranks that were run enclose it."""
        return self.side == 0

    @property
    def bound(self) -> float:
        """Return r*, or the end of the ranks that were run if it lies beyond."""
        return float(min(max(self.rank, self.ranks[0]), self.ranks[-1]))

    @property
    def side(self) -> int:
        """Return -1 or 1 if r* lies below or above the ranks that were run, else 0."""
        return int(self.rank > self.ranks[-1]) - int(self.rank < self.ranks[0])

    def bounded(self, rank: float) -> str:
        """Return a rank in digits, or the end of the ranks that were run."""
        if rank < self.ranks[0]:
            return f"< {self.ranks[0]}"
        return f"> {self.ranks[-1]}" if rank > self.ranks[-1] else f"{rank:.1f}"

    def __str__(self) -> str:
        low, high = map(self.bounded, self.interval)
        own = self.bounded(self.rank)
        return own if low == high == own else f"{own} ({low} to {high})"


def halfway(ranks: list[int], heights: Heights) -> Heights:
    """Return the halfway rank of each curve: the best of a grid by least squares.

    A curve that is halfway nowhere, or everywhere, has it beyond the ranks, whatever a flat fit says.
    """
    places = np.log2(ranks)
    centres, targets = curves(tuple(places))
    errors = (targets**2).sum(axis=1) - 2 * heights @ targets.T
    found = centres[errors.argmin(axis=1)]
    found = np.where(heights.max(axis=1) < HALF, places[-1] + BEYOND, found)
    return 2.0 ** np.where(heights.min(axis=1) >= HALF, places[0] - BEYOND, found)


@functools.cache
def curves(places: tuple[float, ...]) -> tuple[Heights, Heights]:
    """Return the centre of each curve of the grid, and its heights at these places."""
    centres = np.arange(places[0] - BEYOND, places[-1] + BEYOND + RESOLUTION, RESOLUTION)
    steepness, centre = (each.reshape(-1, 1) for each in np.meshgrid(STEEPNESS, centres, indexing="ij"))
    return centre[:, 0], 1.0 / (1.0 + np.exp(-steepness * (np.asarray(places) - centre)))
