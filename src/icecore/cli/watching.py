"""A run's progress on standard error: a live bar on a terminal, plain lines elsewhere."""

import contextlib
import statistics
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from icecore.training import Progress, Watch

PLAIN_SECONDS = 5  # between two plain lines


@contextlib.contextmanager
def watching(label: str, steps: int | None = None) -> "Iterator[Watch]":
    """A function to be told of progress while the block runs."""
    if sys.stderr.isatty():
        with live_bar(label, steps) as watch:
            yield watch
    else:
        yield plain_lines(label)


def plain_lines(label: str) -> "Watch":
    last_printed, began, first_step = 0.0, time.monotonic(), None

    def watch(progress: "Progress") -> None:
        nonlocal last_printed, first_step
        now = time.monotonic()
        first_step = progress.step if first_step is None else first_step
        if progress.accuracy is None and now - last_printed < PLAIN_SECONDS:
            return
        last_printed = now
        rate = (progress.step - first_step) / max(now - began, 1e-9)
        eta = f", {(progress.steps - progress.step) / rate:.0f} s left" if rate > 0 else ""
        print(f"{label}: step {progress.step:,}/{progress.steps:,}, {in_words(progress)}{eta}", file=sys.stderr)

    return watch


@contextlib.contextmanager
def live_bar(label: str, steps: int | None) -> "Iterator[Watch]":
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
        row = bar.add_task(label, total=steps, words="", rate="")
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


def in_words(progress: "Progress", accuracy: list[float] | None = None) -> str:
    words = f"loss {statistics.fmean(progress.loss):.4f}"
    accuracy = progress.accuracy or accuracy
    if accuracy:
        words += f", accuracy {min(accuracy):.3f}" + (f" to {max(accuracy):.3f}" if len(accuracy) > 1 else "")
    return words
