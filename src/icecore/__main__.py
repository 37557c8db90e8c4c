"""`python -m icecore` is `icecore`."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


class Unbroken:
    """A stream for what is said on the way: nobody has to listen to it."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        with self.dropped():
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self.dropped():
            self.stream.flush()

    @contextlib.contextmanager
    def dropped(self) -> Iterator[None]:
        """What nobody takes any more goes nowhere, also when the process ends."""
        try:
            yield
        except OSError:
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())


def configure_streams() -> None:
    """Any text can be printed, whatever the terminal's alphabet, and whoever has closed its end."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name) or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (until the process ends)
        stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, stream if name == "stdout" else Unbroken(stream))


def run() -> None:
    # Threads that spin while they wait for each other cost a busy machine several times the work; set before torch.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    configure_streams()
    try:
        from icecore.cli import main  # takes a while, in which Ctrl-C may come

        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    run()
