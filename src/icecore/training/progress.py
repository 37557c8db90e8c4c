"""Progress of a run, and the intervals at which it is logged, evaluated and saved."""

from collections.abc import Callable
from dataclasses import dataclass

from icecore.errors import require


@dataclass(frozen=True)
class Progress:
    """Argument of a progress callback: each seed's loss after `step` steps, and its accuracy when measured.

    During an evaluation, `evaluated` is the fraction of items done.
    """

    step: int
    steps: int
    loss: list[float]
    accuracy: list[float] | None = None
    test_loss: list[float] | None = None
    evaluated: float | None = None
    probes: dict[str, list[float]] | None = None
    items: int | None = None  # number of test items of the accuracy, if not all


ProgressCallback = Callable[[Progress], None]
EVALUATION_SHARE = 0.2  # share of a run's time, unless the user sets `evaluate_every`
SAMPLE = 256  # most test items of an evaluation for which all of them would take too long
CHECKPOINT_MINUTES = 5.0  # between checkpoints at most, unless the user sets `checkpoint_minutes`


@dataclass(frozen=True)
class Intervals:
    """Intervals of logging, evaluation and checkpoints, in steps unless named otherwise. They do not affect training.

    The best loss of a language model is the best measured one.
    """

    log_every: int
    evaluate_every: int
    checkpoint_every: int
    evaluation_share: float | None = None  # largest share of the time; None always evaluates all test items
    checkpoint_minutes: float = CHECKPOINT_MINUTES  # a checkpoint is written by steps and by time
    snapshots: tuple[int, ...] = ()  # steps to save the weights after, ascending

    @staticmethod
    def of(
        steps: int,
        log: int | None,
        evaluate: int | None,
        checkpoint: int | None,
        checkpoint_minutes: float = CHECKPOINT_MINUTES,
        snapshots: tuple[int, ...] = (),
    ) -> "Intervals":
        for name, value in (("log_every", log), ("evaluate_every", evaluate), ("checkpoint_every", checkpoint)):
            require(value is None or value >= 1, f"{name} must be at least 1, got {value}")
        require(checkpoint_minutes > 0, f"checkpoint_minutes must be above 0, got {checkpoint_minutes:g}")
        return Intervals(
            log or max(1, steps // 200),
            evaluate or max(1, steps // 10),
            checkpoint or max(1, steps // 20),
            EVALUATION_SHARE if evaluate is None else None,
            checkpoint_minutes,
            snapshots,
        )

    def next_stop(self, step: int, end: int) -> int:
        """Return the next step after `step`, up to `end`, at which to log, evaluate or save."""
        every = (self.log_every, self.evaluate_every, self.checkpoint_every)
        snapshot = next((each for each in self.snapshots if each > step), end)
        return min(end, snapshot, *((step // often + 1) * often for often in every))

    def sample(self, batch: int) -> int:
        """Return the number of test items whose evaluation stays within its share: one takes half a training item."""
        affordable = int(2 * (self.evaluation_share or 1) * self.evaluate_every * batch)
        return max(1, min(SAMPLE, affordable))

    def is_logged(self, step: int) -> bool:
        return step % self.log_every == 0 or step % self.evaluate_every == 0
