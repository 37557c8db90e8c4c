"""Atomic writes: a reader sees the whole file or none of it."""

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from icecore.errors import InputError, require
from icecore.store.reading import MOST_JSON, read_regular, resolved
from icecore.store.temporary import delete, temporary_beside


@contextlib.contextmanager
def write_whole(path: Path | str) -> Iterator[IO[str]]:
    """Open a text file that appears at `path` only when the block ends without an exception."""
    path = Path(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("w", encoding="utf-8") as stream:  # a device or a pipe: there is nothing to replace
            yield stream
        return
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        yield stream


@contextlib.contextmanager
def replacing(path: Path, own_folder: bool = False) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` when the block ends without an exception.

    It is a hidden file in the same folder, flushed to disk and renamed. With `own_folder` it is in a hidden folder of
    its own, for writers that make temporary files beside it.
    """
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; name a file")
    try:
        with temporary_beside(path, is_folder=own_folder) as hidden:
            temporary = hidden / path.name if own_folder else hidden
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.chmod(0o666 & ~current_umask())
            os.replace(temporary, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot write {path}: {reason}; fix this or choose another path") from error


def require_writable(path: Path) -> None:
    """Raise early if a file cannot be written to `path`."""
    require(not path.is_dir(), f"cannot write {path}: it is a folder; name a file")
    above = next(folder for folder in resolved(path).parents if folder.exists())
    require(above.is_dir() and os.access(above, os.W_OK), f"cannot write {path}: {above} cannot be written to")


@contextlib.contextmanager
def filled_whole(path: Path) -> Iterator[Path]:
    """Yield a folder that appears as `path` when the block ends without an exception.

    Of several processes the first one to finish wins; the others raise.
    """
    try:
        with temporary_beside(path, is_folder=True) as temporary:
            yield temporary
            temporary.chmod(0o777 & ~current_umask())
            temporary.rename(path)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR) and path.exists():
            raise InputError(f"{path} is already there: another process made it; nothing was changed") from error
        raise InputError(f"cannot write {path}: {error.strerror or error}; fix this or choose another path") from error


def try_lock(file: IO[str] | int) -> bool:
    """Lock a file until it is closed; return False if another process holds it. Without lock support, return True."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def remove_remains(folder: Path, names: Iterable[str]) -> None:
    """Delete the half-written files and folders that a killed process left beside these."""
    for name in names:
        for path in folder.glob(f".{name}.*"):
            delete(path)


def current_umask() -> int:
    """Return the process's umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(path: Path, value: object) -> None:
    with write_whole(path) as stream:
        json.dump(value, stream, indent=1)
        stream.write("\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(read_regular(path, MOST_JSON).decode("utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; check the path") from None
    except InputError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} cannot be read ({error}); it is damaged or not a file of icecore; delete it, with its folder if "
            "that is a run, and create it again"
        ) from error
