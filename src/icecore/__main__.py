"""Entry point of `icecore` and `python -m icecore`."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from icecore.signals import ending_line, interrupts_raised


class Unbroken:
    """Wrapper of stderr that ignores a closed pipe."""

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
        """Send the stream to /dev/null after an OSError, also at exit."""
        try:
            yield
        except OSError:
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())


def configure_streams() -> None:
    """Make any text printable in any terminal encoding, and ignore a closed stderr."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name) or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (until the process ends)
        stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, stream if name == "stdout" else Unbroken(stream))


def run() -> None:
    # Spinning threads cost several times the work on a busy machine. Must be set before torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    number = 0
    try:
        configure_streams()
        with interrupts_raised() as interrupts:
            try:
                from icecore.cli import main  # slow: a signal may come meanwhile

                sys.exit(main())
            finally:
                number = interrupts.number
    except KeyboardInterrupt:
        line, code = ending_line(number)
        print(line, file=sys.stderr)
        sys.exit(code)


if __name__ == "__main__":
    run()
