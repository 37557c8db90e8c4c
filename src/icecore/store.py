"""Writing files so that a reader sees the whole file or none of it."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from icecore.errors import InputError


@contextlib.contextmanager
def write_whole(path: Path | str) -> Iterator[IO[str]]:
    """Open a text file that appears at `path` only when the block ends without an exception.

    The text goes to a hidden file in the same folder, is flushed to the disk, and is renamed.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; name a file")
    if path.exists() and not path.is_file():  # a device or a pipe: there is nothing to replace
        with path.open("w", encoding="utf-8") as stream:
            yield stream
        return
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o666 & ~current_umask())
        os.replace(temporary, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot write {path}: {reason}; choose another path or free it") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def current_umask() -> int:
    """The process's umask (the system only tells it by setting it)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
