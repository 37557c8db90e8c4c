"""Progress on standard error: a live bar on a terminal, plain lines elsewhere."""

import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from icecore.cli.output import say_aside
from icecore.errors import printable_line

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from icecore.training import Progress, ProgressCallback

PLAIN_SECONDS = 5  # between two plain lines


@dataclass
class Pace:
    """Estimates the time left. It starts at the first report of progress, because set-up comes before it."""

    first: tuple[float, float] | None = None

    def left(self, done: float, total: float) -> str:
        """Return `, 2 min left`, or an empty string before there is an estimate."""
        now = time.monotonic()
        if self.first is None:
            self.first = (now, done) if done > 0 else None
            return ""
        began, at_first = self.first
        if done <= at_first:
            return ""
        return f", {duration((total - done) * (now - began) / (done - at_first))} left"


def duration(seconds: float) -> str:
    """Format seconds as 45 s, 12 min or 3 h 20 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


@contextlib.contextmanager
def training_progress(label: str) -> "Iterator[ProgressCallback]":
    """Yield a callback that shows one run's progress while the block runs."""
    if sys.stderr.isatty():
        with live_bar(label) as on_progress:
            yield on_progress
    else:
        yield plain_lines(label)


def plain_lines(label: str) -> "ProgressCallback":
    last_printed, pace = 0.0, Pace()

    def on_progress(progress: "Progress") -> None:
        nonlocal last_printed
        now = time.monotonic()
        left = pace.left(progress.step, progress.steps)
        if progress.accuracy is None and now - last_printed < PLAIN_SECONDS:
            return
        last_printed = now
        say_aside(f"{label}: step {progress.step:,}/{progress.steps:,}, {progress_in_words(progress)}{left}")

    return on_progress


@contextlib.contextmanager
def live_bar(label: str) -> "Iterator[ProgressCallback]":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        BarColumn(bar_width=14),  # a narrow terminal cuts the last columns
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[words]}"),
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.description}", markup=False),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        row = bar.add_task(label, total=None, words="", rate="")
        accuracy: list[float] | None = None

        def on_progress(progress: "Progress") -> None:
            nonlocal accuracy
            accuracy = progress.accuracy or accuracy
            speed = bar.tasks[row].speed
            bar.update(
                row,
                total=progress.steps,
                completed=progress.step,
                words=progress_in_words(progress, accuracy),
                rate=f"{speed:.0f} steps/s" if speed else "",
            )

        yield on_progress


def described_bar() -> "Bar":
    """Return a bar with an ETA and a description; it is silent without a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (
        BarColumn(bar_width=14),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.description}", markup=False),
    )
    return Bar(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextlib.contextmanager
def sweep_progress(total: int) -> "Iterator[SweepProgress]":
    """Show the progress of a sweep of `total` seed-steps while the block runs."""
    with described_bar() as bar:
        yield SweepProgress(bar, total)


class SweepProgress:
    """Progress of a sweep. Runs come in sequence or, if only their ends are reported, in any order."""

    def __init__(self, bar: "Bar", total: int) -> None:
        self.bar, self.row = bar, bar.add_task("", total=total)
        self.total, self.done, self.under_way = total, 0, 0
        self.pace, self.last_printed = Pace((time.monotonic(), 0)), time.monotonic()

    def begin(self, label: str, seed_steps: int) -> "ProgressCallback":
        """Begin a run, which ends the previous one, and return its progress callback."""
        self.done += self.under_way
        self.under_way = seed_steps
        self.show(label, self.done, is_due=True)

        def on_progress(progress: "Progress") -> None:
            done = self.done + seed_steps * progress.step / progress.steps
            self.show(f"{label}: step {progress.step:,}/{progress.steps:,}, {progress_in_words(progress)}", done)

        return on_progress

    def end(self, words: str, seed_steps: int) -> None:
        """End a run with a line that stays on the screen."""
        self.done, self.under_way = self.done + seed_steps, 0
        self.bar.update(self.row, completed=self.done)
        line = f"[{self.share(self.done):4.0%}] {words}"
        if self.bar.disable:
            say_aside(line, flush=True)
        else:
            self.bar.console.print(printable_line(line), markup=False, highlight=False)

    def share(self, done: float) -> float:
        return done / self.total if self.total else 1.0

    def drop(self, seed_steps: int) -> None:
        """Leave out a run that is not needed."""
        self.total -= seed_steps
        self.bar.update(self.row, total=self.total)

    def show(self, words: str, done: float, is_due: bool = False) -> None:
        self.bar.update(self.row, completed=done, description=words)
        now = time.monotonic()
        if not self.bar.disable or not (is_due or now - self.last_printed >= PLAIN_SECONDS):
            return
        self.last_printed = now
        say_aside(f"[{self.share(done):4.0%}{self.pace.left(done, self.total)}] {words}", flush=True)


@contextlib.contextmanager
def stage_progress() -> "Iterator[Callable[[str, int, int | None], None]]":
    """Yield a callback (stage, done, total) that shows each stage with an ETA of its own."""
    with described_bar() as bar:
        row, stage, last_shown, pace = None, "", 0.0, Pace()

        def on_progress(now_at: str, done: int, total: int | None) -> None:
            nonlocal row, stage, last_shown, pace
            now = time.monotonic()
            is_new = now_at != stage
            if is_new:
                if row is not None:
                    bar.remove_task(row)
                row, stage, pace = bar.add_task(now_at, total=total), now_at, Pace()
            left = pace.left(done, total) if total else ""
            pause = PLAIN_SECONDS if bar.disable else 0.1
            if not is_new and done != total and now - last_shown < pause:
                return
            last_shown = now
            assert row is not None
            bar.update(row, completed=done, total=total)
            if bar.disable and (is_new or done != total):
                share = f": {done / total:.0%}" if total and not is_new else ""
                say_aside(f"{now_at}{share}{left}", flush=True)

        yield on_progress


def progress_in_words(progress: "Progress", accuracy: list[float] | None = None) -> str:
    words = f"loss {statistics.fmean(progress.loss):.4f}"
    if progress.evaluated is not None:
        return f"{words}, evaluating: {progress.evaluated:.0%}"
    accuracy = progress.accuracy or accuracy
    if accuracy:
        words += f", accuracy {min(accuracy):.3f}" + (f" to {max(accuracy):.3f}" if len(accuracy) > 1 else "")
    return words
