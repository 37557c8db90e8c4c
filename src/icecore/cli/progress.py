"""The progress of a run, or of many, on standard error: a live bar on a terminal, plain lines elsewhere."""

import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from icecore.training import Progress, ProgressCallback

PLAIN_SECONDS = 5  # between two plain lines


@contextlib.contextmanager
def watching(label: str) -> "Iterator[ProgressCallback]":
    """A function to be told of progress while the block runs."""
    if sys.stderr.isatty():
        with live_bar(label) as watch:
            yield watch
    else:
        yield plain_lines(label)


def plain_lines(label: str) -> "ProgressCallback":
    last_printed = 0.0
    first: tuple[float, int] | None = None  # when, and after which step: a run may go on from a checkpoint

    def watch(progress: "Progress") -> None:
        nonlocal last_printed, first
        now = time.monotonic()
        began, first_step = first = first or (now, progress.step)
        if progress.accuracy is None and now - last_printed < PLAIN_SECONDS:
            return
        last_printed = now
        rate = (progress.step - first_step) / max(now - began, 1e-9)
        eta = f", {(progress.steps - progress.step) / rate:.0f} s left" if rate > 0 else ""
        print(f"{label}: step {progress.step:,}/{progress.steps:,}, {in_words(progress)}{eta}", file=sys.stderr)

    return watch


@contextlib.contextmanager
def live_bar(label: str) -> "Iterator[ProgressCallback]":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        BarColumn(bar_width=14),  # what is cut off on a narrow terminal comes last
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[words]}"),
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.description}"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        row = bar.add_task(label, total=None, words="", rate="")
        accuracy: list[float] | None = None

        def watch(progress: "Progress") -> None:
            nonlocal accuracy
            accuracy = progress.accuracy or accuracy
            speed = bar.tasks[row].speed
            bar.update(
                row,
                total=progress.steps,
                completed=progress.step,
                words=in_words(progress, accuracy),
                rate=f"{speed:.0f} steps/s" if speed else "",
            )

        yield watch


def described_bar() -> "Bar":
    """A bar with an ETA and what it is about; silent where there is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (
        BarColumn(bar_width=14),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.description}"),
    )
    return Bar(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextlib.contextmanager
def watching_many(total: int) -> "Iterator[ManyRuns]":
    """Progress over many runs of `total` seed-steps together, while the block runs."""
    with described_bar() as bar:
        yield ManyRuns(bar, total)


class ManyRuns:
    """Runs one after the other, or, where only their ends are told, in any order."""

    def __init__(self, bar: "Bar", total: int) -> None:
        self.bar, self.row = bar, bar.add_task("", total=total)
        self.total, self.done, self.under_way = total, 0, 0
        self.began = self.last_printed = time.monotonic()

    def begin(self, label: str, seed_steps: int) -> "ProgressCallback":
        """A run begins, and with it the one before is through; a function to be told of its progress."""
        self.done += self.under_way
        self.under_way = seed_steps
        self.say(label, self.done, is_due=True)

        def watch(progress: "Progress") -> None:
            done = self.done + seed_steps * progress.step / progress.steps
            self.say(f"{label}: step {progress.step:,}/{progress.steps:,}, {in_words(progress)}", done)

        return watch

    def end(self, words: str, seed_steps: int) -> None:
        """A run is through, with a result that stays on the screen."""
        self.done, self.under_way = self.done + seed_steps, 0
        self.bar.update(self.row, completed=self.done)
        line = f"[{self.done / self.total:4.0%}] {words}"
        if self.bar.disable:
            print(line, file=sys.stderr, flush=True)
        else:
            self.bar.console.print(line, markup=False, highlight=False)

    def say(self, words: str, done: float, is_due: bool = False) -> None:
        self.bar.update(self.row, completed=done, description=words)
        now = time.monotonic()
        if not self.bar.disable or not (is_due or now - self.last_printed >= PLAIN_SECONDS):
            return
        self.last_printed = now
        left = f", {(self.total - done) * (now - self.began) / done / 60:.0f} min left" if done else ""
        print(f"[{done / self.total:4.0%}{left}] {words}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def watching_stages() -> "Iterator[Callable[[str, int, int | None], None]]":
    """A function to be told the stage, how much of it is done and of how much: a bar with an ETA for each stage."""
    with described_bar() as bar:
        row, stage, last_shown, began = None, "", 0.0, 0.0

        def watch(now_at: str, done: int, total: int | None) -> None:
            nonlocal row, stage, last_shown, began
            now = time.monotonic()
            is_new = now_at != stage
            if is_new:
                if row is not None:
                    bar.remove_task(row)
                row, stage, began = bar.add_task(now_at, total=total), now_at, now
            pause = PLAIN_SECONDS if bar.disable else 0.1
            if not is_new and done != total and now - last_shown < pause:
                return
            last_shown = now
            assert row is not None
            bar.update(row, completed=done, total=total)
            if bar.disable and (is_new or done != total):
                left = f", {(total - done) * (now - began) / done:.0f} s left" if total and done and not is_new else ""
                share = f": {done / total:.0%}" if total and not is_new else ""
                print(f"{now_at}{share}{left}", file=sys.stderr, flush=True)

        yield watch


def in_words(progress: "Progress", accuracy: list[float] | None = None) -> str:
    words = f"loss {statistics.fmean(progress.loss):.4f}"
    if progress.evaluated is not None:
        return f"{words}, evaluating: {progress.evaluated:.0%}"
    accuracy = progress.accuracy or accuracy
    if accuracy:
        words += f", accuracy {min(accuracy):.3f}" + (f" to {max(accuracy):.3f}" if len(accuracy) > 1 else "")
    return words
