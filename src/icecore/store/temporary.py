"""Hidden temporary files and folders beside their targets: locked while in use, deleted once their process is dead."""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

SUFFIX = ".part"
DAY_SECONDS = 86_400.0


@contextlib.contextmanager
def temporary_beside(path: Path, is_folder: bool = False) -> Iterator[Path]:
    """Yield a new hidden file or folder beside `path`, which is created if missing; delete it if it is still there.

    Its name is unique and it is locked, so that no process takes another's for abandoned.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned_of(path)
    handle, temporary = locked_new(path, is_folder)
    try:
        yield temporary
    finally:
        delete(temporary)
        os.close(handle)


def locked_new(path: Path, is_folder: bool) -> tuple[int, Path]:
    """Make a temporary file or folder and lock it; again, if another process deleted it before it was locked."""
    while True:
        names = {"dir": path.parent, "prefix": f".{path.name}.", "suffix": SUFFIX}
        if is_folder:
            name = tempfile.mkdtemp(**names)
        else:
            file, name = tempfile.mkstemp(**names)
            os.close(file)
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(name, os.O_RDONLY)
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            if Path(name).exists():
                return handle, Path(name)
            os.close(handle)


def remove_abandoned_of(path: Path) -> None:
    """Delete the temporary files and folders of `path` that a killed process left."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(path.parent)):
            if entry.name.startswith(f".{path.name}.") and entry.name.endswith(SUFFIX):
                remove_if_abandoned(Path(entry.path))


def remove_if_abandoned(path: Path) -> None:
    """Delete a temporary file or folder unless a process uses it; without locks, only if it is older than a day."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if is_unlocked(handle):
                delete(path)
        finally:
            os.close(handle)


def is_unlocked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return time.time() - os.fstat(handle).st_mtime > DAY_SECONDS
    return True


def is_temporary(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(SUFFIX)


def delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
