"""Signals that end a run: training saves a checkpoint first, and the second signal ends the process at once."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

# Ctrl-C, then what schedulers and closed terminals send before they kill a process.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


class Interrupts:
    """The first signal that came, if any."""

    def __init__(self) -> None:
        self.number = 0  # of the signal; 0 is none

    def is_set(self) -> bool:
        return self.number > 0


@contextlib.contextmanager
def interrupts_deferred() -> Iterator[Interrupts]:
    """Note the first signal instead of interrupting a step; the second has its usual effect.

    Signals that the process ignores, as under `nohup`, stay ignored. Only the main thread can handle signals.
    """
    noted = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    # A shell's background job ignores Ctrl-C, but a signal sent to it on purpose shall save.
    handled = [number for number in ENDING if number == signal.SIGINT or before[number] != signal.SIG_IGN]

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

    for number in handled:
        signal.signal(number, handle)
    try:
        yield noted
    finally:
        for number in handled:
            signal.signal(number, before[number] or signal.SIG_DFL)  # None: not set from Python
