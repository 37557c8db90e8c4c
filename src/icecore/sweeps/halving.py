"""Search for the smallest sufficient width: widths from the narrowest, starts by successive halving.

It decides on validation accuracies alone, and trains nothing itself: `measure` does, in `sweeps.width_search`.
"""

import contextlib
import math
import statistics
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from icecore.errors import require

RANDOM, NORMAL, U_ONLY = "Random", "Normal", "U only"
PARTS = (4, 2, 1)  # of all steps: a start is tried at a quarter, the better half at a half, the best at all of them

State = Literal["reached", "not reached", "not within this budget"]


class OutOfBudget(Exception):
    """A trial that does not fit into what is left of the budget."""

    def __init__(self, trial: "Trial", needed: float | None = None) -> None:
        super().__init__(str(trial))
        self.trial, self.needed = trial, needed  # about how many seconds the whole trial takes, if known


@dataclass(frozen=True)
class Start:
    """A learning rate and an initialization of the body; None is the model's own."""

    lr: float
    init: str | None = None
    gain: float | None = None

    @property
    def scale(self) -> str:
        """Return the initialization in words: "matched x 2"."""
        factor = "" if self.gain in (None, 1.0) else f"x {self.gain:g}"
        return " ".join(filter(None, (self.init, factor))) or "its own"

    def __str__(self) -> str:
        return f"rate {self.lr:g}, {self.scale}"


@dataclass(frozen=True)
class Trial:
    """One population to train: what trains, at which width, from which start, for how many steps."""

    kind: str
    width: int
    start: Start
    steps: int
    seeds: tuple[int, ...]

    def __str__(self) -> str:
        seeds = f"{len(self.seeds)} seed{'s' * (len(self.seeds) > 1)}"
        return f"{self.kind} {self.width}, {self.start}, {self.steps:,} steps, {seeds}"


@dataclass(frozen=True)
class Measured:
    """Accuracies of a trial, one per seed."""

    validation: tuple[float, ...]
    test: tuple[float, ...]

    @property
    def median(self) -> float:
        """Return the median on validation items, which decides."""
        return statistics.median(self.validation)


# Measures trials one after the other, as far as the caller reads on; raises OutOfBudget.
Measure = Callable[[Sequence[Trial]], Generator[Measured, None, None]]


@dataclass(frozen=True)
class Plan:
    """The question: which widths and starts to try, and the accuracy that suffices."""

    target: float
    widths: tuple[int, ...]  # ascending
    starts: Mapping[str, tuple[Start, ...]]  # by kind
    steps: int
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        require(0 < self.target <= 1, f"--target must be above the baseline and at most 1, got {self.target:g}")
        require(bool(self.widths), "give at least one width")
        require(all(self.starts.values()), "give at least one learning rate")

    @property
    def rungs(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(max(1, self.steps // part) for part in PARTS))


@dataclass(frozen=True)
class Attempt:
    """A width that was searched to its end: its last trial with all seeds."""

    trial: Trial
    measured: Measured
    suffices: bool

    @property
    def width(self) -> int:
        return self.trial.width


@dataclass(frozen=True)
class Answer:
    """Answer about one kind: every width searched to its end, ascending."""

    kind: str
    attempts: tuple[Attempt, ...]
    widths: tuple[int, ...]

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def width(self) -> int | None:
        """Return the smallest sufficient width, None if none is known."""
        return self.last.width if self.last is not None and self.last.suffices else None

    @property
    def state(self) -> State:
        if self.width is not None:
            return "reached"
        return "not reached" if len(self.attempts) == len(self.widths) else "not within this budget"

    @property
    def lower_bound(self) -> int | None:
        """Return the widest width that missed the target, None if none was searched to its end."""
        return max((attempt.width for attempt in self.attempts if not attempt.suffices), default=None)


@dataclass(frozen=True)
class Found:
    """Answers by kind, and the unembedding alone at Random's width, if there was time."""

    answers: Mapping[str, Answer]
    unembedding: Attempt | None
    out_of_budget: OutOfBudget | None  # the first trial that did not fit

    @property
    def is_whole(self) -> bool:
        return self.out_of_budget is None


def search(plan: Plan, measure: Measure) -> Found:
    """Try widths from the narrowest, all kinds in turn, until each suffices or the budget ends."""
    attempts: dict[str, list[Attempt]] = {kind: [] for kind in plan.starts}
    failed: dict[str, OutOfBudget] = {}
    alone: Attempt | None = None

    def try_alone(attempt: Attempt) -> None:
        nonlocal alone
        trial = Trial(U_ONLY, attempt.width, attempt.trial.start, attempt.trial.steps, plan.seeds)
        try:
            measured = only(measure, trial)
        except OutOfBudget as error:
            failed[U_ONLY] = error
        else:
            alone = Attempt(trial, measured, measured.median >= plan.target)

    for width in plan.widths:
        for kind, own in attempts.items():
            if kind in failed or (own and own[-1].suffices):
                continue
            try:
                own.append(try_width(plan, kind, width, measure))
            except OutOfBudget as error:
                failed[kind] = error
                continue
            if kind == RANDOM and (own[-1].suffices or width == plan.widths[-1]):
                try_alone(own[-1])
    answers = {kind: Answer(kind, tuple(own), plan.widths) for kind, own in attempts.items()}
    return Found(answers, alone, next(iter(failed.values()), None))


def try_width(plan: Plan, kind: str, width: int, measure: Measure) -> Attempt:
    """Halve the starts, each time with twice the steps; stop at the first run that suffices with all seeds."""
    left = list(plan.starts[kind])
    for steps in plan.rungs[:-1]:
        scores: dict[Start, float] = {}
        # Closed at the end, so that a cluster drops what it still computes for it.
        with contextlib.closing(measure([Trial(kind, width, each, steps, plan.seeds[:1]) for each in left])) as tried:
            for start, measured in zip(left, tried, strict=True):
                scores[start] = measured.median
                if scores[start] >= plan.target:
                    trial = Trial(kind, width, start, steps, plan.seeds)
                    confirmed = only(measure, trial)
                    if confirmed.median >= plan.target:
                        return Attempt(trial, confirmed, True)
        left = sorted(left, key=lambda start: -scores[start])[: math.ceil(len(left) / 2)]  # stable
    # With few starts one is left; with many, or few rungs, the best so far is chosen.
    trial = Trial(kind, width, left[0], plan.steps, plan.seeds)
    measured = only(measure, trial)
    return Attempt(trial, measured, measured.median >= plan.target)


def only(measure: Measure, trial: Trial) -> Measured:
    with contextlib.closing(measure([trial])) as measured:
        return next(measured)
