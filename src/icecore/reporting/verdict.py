"""Verdicts: is our number different from the paper's, is it equivalent, and would a null have passed?

Two questions are answered from the bootstrap distribution of our median over seeds:

- different: the interval excludes the paper's number, rounded as it is printed. Holm's correction over a table.
- equivalent: the whole interval lies within the tolerance, which was fixed beforehand.

| equivalent | different | verdict |
|---|---|---|
| yes | no | reproduced |
| yes | yes | reproduced: the difference is real, and smaller than the tolerance |
| no | yes | differs if our median is outside the tolerance, else undecided |
| no | no | undecided: more seeds are needed |

A rule without a number, such as "at least 3", is equivalent if the interval keeps to it, and different if the interval
breaks it throughout. Fewer than `LEAST_SEEDS` seeds have no interval, so the claim is undecided.

Limits: no resample leaves the range of the seeds, so of five seeds on one side of the paper's number p is the smallest
there is, where a sign test has 1/16. Holm's correction cannot repair that. In tables of 16 numbers that are all as
printed, "different" is wrong somewhere in more than half of the tables with five seeds per number, and in a fifth with
ten. So `differs` also asks that the median be outside the tolerance. It is then never wrong where seeds spread by a
third of the tolerance, and with ten seeds in about 2 % of the tables where they spread by all of it
(`tests/test_verdicts.py` simulates them).
"""

import functools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
# The range of 5 seeds contains the true median with probability 94 %, that of 4 with 88 %, and that of 3 with 75 %.
LEAST_SEEDS = 5
RESAMPLES = 20_000  # the smallest p-value is 1e-4, below Holm's first step for a table of 500
SEED = 20241
SLACK = 1e-9  # tolerance of floating-point comparisons

Medians = NDArray[np.float64]


@dataclass(frozen=True)
class Null:
    """A number that needs no trained model, and where it comes from."""

    name: str
    value: float
    agrees: bool  # it would pass as the paper's number


@dataclass(frozen=True)
class Judged:
    """The answers about one claim. All but the verdict are None without an interval."""

    verdict: str
    interval: tuple[float, float] | None = None
    p: float | None = None  # p-value of no difference, corrected over the table
    different: bool | None = None
    equivalent: bool | None = None


@dataclass(frozen=True)
class Question:
    """A claim to judge: the medians of its resamples, the allowed range, and the paper's number if it has one."""

    medians: Medians | None  # None: too few seeds
    least: float
    most: float
    paper: float | None = None
    is_outside: bool = True  # our median is outside the range


@functools.cache
def middle_ranks(count: int, resamples: int = RESAMPLES) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the two middle ranks of each resample of `count` seeds; they are equal if the count is odd."""
    drawn = np.random.default_rng((SEED, count)).integers(count, size=(resamples, count))
    drawn.sort(axis=1)
    return drawn[:, (count - 1) // 2], drawn[:, count // 2]


def resampled_medians(values: Sequence[float], stream: int = 0) -> Medians | None:
    """Return the median of each resample, None with too few seeds. Another `stream` is drawn independently."""
    if len(values) < LEAST_SEEDS:
        return None
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    lower, upper = middle_ranks(len(values))
    medians = (ordered[lower] + ordered[upper]) / 2
    return np.random.default_rng((SEED, stream)).permutation(medians) if stream else medians


def resampled_groups(groups: Sequence[Sequence[float]]) -> Medians | None:
    """Return the median of each resample of data seeds, and of seeds within each; None with too few runs or groups.

    Runs of one data seed share their training data, so they are drawn together.
    """
    if len(groups) < 2 or sum(map(len, groups)) < LEAST_SEEDS:
        return None
    rng = np.random.default_rng((SEED, len(groups), sum(map(len, groups))))
    drawn = np.full((RESAMPLES, len(groups), max(map(len, groups))), np.nan)
    chosen = rng.integers(len(groups), size=(RESAMPLES, len(groups)))
    for place, values in enumerate(groups):
        rows, slots = np.nonzero(chosen == place)
        drawn[rows, slots, : len(values)] = rng.choice(np.asarray(values, np.float64), (len(rows), len(values)))
    return np.nanmedian(drawn.reshape(RESAMPLES, -1), axis=1)


def resampled_least(values: Sequence[float]) -> Medians | None:
    """Return the smallest value of each resample, None with too few seeds."""
    if len(values) < LEAST_SEEDS:
        return None
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    drawn = np.random.default_rng((SEED, len(values))).integers(len(values), size=(RESAMPLES, len(values)))
    return ordered[drawn.min(axis=1)]


def halves(samples: Sequence[Medians]) -> tuple[Medians, Medians]:
    """Return the first and the second half of the samples, stacked."""
    middle = len(samples) // 2
    return np.stack(samples[:middle]), np.stack(samples[middle:])


def mean_difference(samples: Sequence[Medians]) -> Medians:
    first, second = halves(samples)
    return first.mean(axis=0) - second.mean(axis=0)


def percent_above(samples: Sequence[Medians]) -> Medians:
    first, second = halves(samples)
    return 100.0 * (first > second).mean(axis=0)


# Numbers from the medians of several cells. The last two compare the first half of the cells with the second.
COMBINED: dict[str, Callable[[Sequence[Medians]], Medians]] = {
    "ratio": lambda samples: samples[0] / samples[1],
    "difference": lambda samples: samples[0] - samples[1],
    "least": lambda samples: np.stack(samples).min(axis=0),
    "most": lambda samples: np.stack(samples).max(axis=0),
    "mean difference": mean_difference,
    "percent above": percent_above,
}


def combined(how: str, cells: Sequence[Sequence[float]]) -> float | None:
    """Return a number from the medians of several cells, None if a cell has no runs."""
    if not all(cells):
        return None
    return float(COMBINED[how]([np.array([statistics.median(values)]) for values in cells])[0])


def resampled_combined(how: str, cells: Sequence[Sequence[float]]) -> Medians | None:
    """Return it for each resample; cells are drawn independently. None if a cell has too few seeds."""
    samples = [resampled_medians(values, stream) for stream, values in enumerate(cells)]
    found = [sample for sample in samples if sample is not None]
    return COMBINED[how](found) if found and len(found) == len(samples) else None


def rounding_of(printed: float) -> float:
    """Return half a unit of the last digit of a printed number: 0.05 of 100.0, nothing of a count."""
    if isinstance(printed, int):
        return 0.0
    return 0.5 * 10.0 ** -len(repr(printed).partition(".")[2])


def interval_of(medians: Medians) -> tuple[float, float]:
    """Return the interval between the percentiles, both of which are medians that were drawn."""
    tail = (1 - LEVEL) / 2
    lower = np.quantile(medians, tail, method="lower")
    return float(lower), float(np.quantile(medians, 1 - tail, method="higher"))


def p_value(question: Question) -> float:
    """Return how often resamples lie on the other side of the paper's number, or keep to the rule; two-sided."""
    assert question.medians is not None
    medians = question.medians
    if question.paper is None:
        low, high = question.least, question.most
    else:
        half = rounding_of(question.paper)
        low, high = question.paper - half, question.paper + half
    above = np.count_nonzero(medians >= low - SLACK)
    below = np.count_nonzero(medians <= high + SLACK)
    return min(1.0, 2 * (1 + int(min(above, below))) / (len(medians) + 1))


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's method, in their order."""
    corrected, largest = [0.0] * len(values), 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        corrected[place] = largest
    return corrected


def verdict_from(equivalent: bool, different: bool, is_outside: bool) -> str:
    return "reproduced" if equivalent else "differs" if different and is_outside else "undecided"


def judge_table(questions: Sequence[Question | None]) -> list[Judged]:
    """Judge the claims of one table together; None is a claim that was not run."""
    measured = [question for question in questions if question is not None and question.medians is not None]
    corrected = iter(holm([p_value(question) for question in measured]))
    found: list[Judged] = []
    for question in questions:
        if question is None:
            found.append(Judged("not run"))
        elif question.medians is None:
            found.append(Judged("undecided"))
        else:
            interval, p = interval_of(question.medians), next(corrected)
            equivalent = question.least - SLACK <= interval[0] and interval[1] <= question.most + SLACK
            different = p <= 1 - LEVEL
            found.append(
                Judged(verdict_from(equivalent, different, question.is_outside), interval, p, different, equivalent)
            )
    return found
