"""A budget of seconds for many runs: a run that will not be ready in time is stopped as soon as its pace is known."""

import re
import time
from collections.abc import Callable

from icecore.errors import InputError, require
from icecore.sweeps.halving import OutOfBudget, Trial
from icecore.training import Progress, ProgressCallback

SECONDS_OF = {"s": 1, "m": 60, "h": 3600}
BUDGET = re.compile(r"(\d+(?:\.\d+)?)([smh])")
RESERVED, MOST_RESERVED = 0.05, 10.0  # share of the budget for results and figure, and most seconds of it
KNOWN_PACE = 0.05  # share of a run after which its end is estimated
AFTER_STEPS = 1.1  # training and evaluation take this much more than the steps alone


def parse_budget(text: str) -> float:
    """Read `90s`, `10m` or `2h` as seconds."""
    matched = BUDGET.fullmatch(text.strip())
    require(matched is not None, f"--budget takes a number and a unit, such as 90s, 10m or 2h, got '{text}'")
    assert matched is not None
    seconds = float(matched[1]) * SECONDS_OF[matched[2]]
    require(seconds > 0, f"--budget must be above 0, got '{text}'")
    return seconds


class Budget:
    """Seconds that are left, by a clock. A part may end earlier than the whole."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        require(seconds > 0, f"budget must be above 0 seconds, got {seconds:g}")
        self.seconds, self.clock = seconds, clock
        self.began = clock()
        self.end = self.began + seconds - min(RESERVED * seconds, MOST_RESERVED)

    @property
    def spent(self) -> float:
        return self.clock() - self.began

    @property
    def left(self) -> float:
        return self.end - self.clock()

    def part(self, parts: int) -> "Budget":
        """Return a budget of one in `parts` of what is left."""
        made = Budget(self.seconds, self.clock)
        made.began, made.end = self.began, self.clock() + max(0.0, self.left) / parts
        return made

    def watch(self, trial: Trial, report: ProgressCallback | None = None) -> ProgressCallback:
        """Return a callback of training that raises OutOfBudget once the trial will not be ready in time."""
        if self.left <= 0:
            raise OutOfBudget(trial)
        began = self.clock()
        first: tuple[int, float] | None = None  # set-up comes before it

        def on_progress(progress: Progress) -> None:
            nonlocal first
            now = self.clock()
            if first is None:
                first = (progress.step, now)
            done = progress.step - first[0]
            if done >= KNOWN_PACE * progress.steps:
                rest = (progress.steps - progress.step) * (now - first[1]) / done
                if rest > self.end - now:
                    raise OutOfBudget(trial, AFTER_STEPS * (now - began + rest))
            elif now >= self.end:
                raise OutOfBudget(trial)
            if report is not None:
                report(progress)

        return on_progress


def too_short(error: OutOfBudget, budget: Budget) -> InputError:
    """Return the error of a budget in which not one run ended."""
    takes = "" if error.needed is None else f", which takes about {error.needed:.0f} s"
    return InputError(
        f"a budget of {budget.seconds:g} s is too short for one run ({error.trial}{takes}): give a longer --budget, or "
        "fewer --steps or a smaller --batch"
    )
