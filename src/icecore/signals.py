"""Signals that end a process: training saves a checkpoint first, and every command says which signal ended it."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

# Ctrl-C, then what schedulers and closed terminals send before they kill a process.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
SOON_SECONDS = 0.05


class Interrupts:
    """The first signal that came, if any."""

    def __init__(self) -> None:
        self.number = 0  # number of the signal; 0 is none

    def is_set(self) -> bool:
        return self.number > 0


@contextlib.contextmanager
def interrupts_deferred() -> Iterator[Interrupts]:
    """Note the first signal instead of interrupting a step; the second has its usual effect.

    Signals that the process ignores, as under `nohup`, stay ignored. Only the main thread can handle signals.
    """
    noted = Interrupts()
    before = {number: signal.getsignal(number) for number in ENDING}

    def handle(number: int, frame: Any) -> None:
        if not noted.is_set():
            noted.number = number
            return
        usual = before[signal.Signals(number)]
        if callable(usual):
            usual(number, frame)
        elif usual == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    # A shell's background job ignores Ctrl-C, but a signal sent to it on purpose shall save.
    with handled_by(handle, (signal.SIGINT, *not_ignored())):
        yield noted


@contextlib.contextmanager
def interrupts_raised() -> Iterator[Interrupts]:
    """Raise KeyboardInterrupt at every signal that would end the process silently, so that files are cleaned up.

    The number is noted: some libraries turn the exception into another one.
    """
    noted = Interrupts()

    def handle(number: int, _frame: Any) -> None:
        noted.number = number
        raise KeyboardInterrupt

    with (
        sent_again_if_dropped(noted),
        handled_by(handle, [number for number in not_ignored() if number != signal.SIGINT]),
    ):
        yield noted


@contextlib.contextmanager
def sent_again_if_dropped(noted: Interrupts) -> Iterator[None]:
    """Send a signal again whose exception Python dropped, as it does in a destructor."""
    usual = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            usual(unraisable)
            return
        again = threading.Timer(SOON_SECONDS, os.kill, (os.getpid(), noted.number or signal.SIGINT))
        again.daemon = True
        again.start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = usual


def not_ignored() -> list[signal.Signals]:
    return [number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN]


@contextlib.contextmanager
def handled_by(handle: Callable[[int, Any], None], numbers: Iterable[signal.Signals]) -> Iterator[None]:
    """Handle signals while the block runs. Outside of the main thread, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handle) for number in dict.fromkeys(numbers)}
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual or signal.SIG_DFL)  # None: not set from Python


def ending_line(number: int) -> tuple[str, int]:
    """Return the last line of a command that a signal ended, and its exit code; 0 is Ctrl-C."""
    number = number or signal.SIGINT
    name = signal.Signals(number).name
    return "interrupted" if number == signal.SIGINT else f"interrupted by {name}", 128 + number
