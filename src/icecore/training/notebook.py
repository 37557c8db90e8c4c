"""Show training progress in a notebook."""

import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator

from icecore.training.progress import Progress, ProgressCallback

SECONDS = 0.5  # between two updates


@contextlib.contextmanager
def notebook_progress(label: str) -> Iterator[ProgressCallback | None]:
    """Yield a callback that shows a progress line below the cell, or None outside of notebooks."""
    show = updating_display()
    if show is None:
        yield None
        return
    began, last = time.monotonic(), 0.0
    first: tuple[float, int] | None = None  # time and step of the first report, after set-up or a resume

    def on_progress(progress: Progress) -> None:
        nonlocal last, first
        now = time.monotonic()
        first = first or (now, progress.step)
        if now - last < SECONDS and progress.step < progress.steps:
            return
        last = now
        done = progress.step - first[1]
        left = f", about {(progress.steps - progress.step) * (now - first[0]) / done:.0f} s left" if done > 0 else ""
        accuracy = f", accuracy {statistics.median(progress.accuracy):.3f}" if progress.accuracy else ""
        show(
            f"{label}: step {progress.step:,} of {progress.steps:,}, loss {statistics.fmean(progress.loss):.4f}"
            f"{accuracy}{left}"
        )

    yield on_progress
    show(f"{label}: done in {time.monotonic() - began:.1f} s")


def updating_display() -> Callable[[str], None] | None:
    """Return a function that replaces one line of a notebook's output; None outside of notebooks."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if not any(kind.__name__ == "ZMQInteractiveShell" for kind in type(shell).__mro__):  # Colab's derives from it
        return None
    from IPython.display import display  # pyright: ignore[reportMissingImports]

    handle = display({"text/plain": ""}, raw=True, display_id=True)
    return lambda text: handle.update({"text/plain": text}, raw=True)
