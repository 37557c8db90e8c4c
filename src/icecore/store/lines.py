"""Files of JSON lines: append all or nothing under a lock, and read what is there."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from icecore.errors import InputError
from icecore.store.reading import MOST_RECORDS, read_regular


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not empty, with their numbers; none of a missing file."""
    try:
        content = read_regular(path, MOST_RECORDS)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    for number, line in enumerate(content.decode("utf-8", errors="replace").splitlines(), start=1):
        if line.strip():
            yield number, line


def append_lines(path: Path, fresh: Callable[[], Sequence[Any]]) -> int:
    """Append the values that `fresh` returns under the lock, all or none; return their number."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b", buffering=0) as file:  # a buffer would still be written after an error
            fcntl.flock(file, fcntl.LOCK_EX)  # two writers take turns
            values = fresh()
            end = file.seek(0, os.SEEK_END)
            text = "".join(json.dumps(value) + "\n" for value in values)
            if text and end and ends_amid_a_line(file):
                text = "\n" + text
            try:
                rest = memoryview(text.encode())
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
            except OSError:
                os.ftruncate(file.fileno(), end)  # a full disk leaves no half line behind
                raise
            return len(values)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; fix this and try again") from error


def ends_amid_a_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) != b"\n"
