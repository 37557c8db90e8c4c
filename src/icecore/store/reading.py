"""Read files from untrusted sources: regular files only, up to a size limit."""

import errno
import os
import stat
from pathlib import Path

from icecore.errors import InputError

MIB = 2**20
MOST_JSON, MOST_RECORDS = 64 * MIB, 1024 * MIB  # far above what icecore writes


def read_regular(path: Path, most: int, follow: bool = True) -> bytes:
    """Return a file's bytes; raise for a device, a pipe, a folder, or more than `most` bytes.

    Without `follow`, a link is refused too. A missing file is a `FileNotFoundError`.
    """
    handle = open_regular(path, follow)
    with os.fdopen(handle, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        content = stream.read(most + 1) if size <= most else b""
    if size > most or len(content) > most:
        raise InputError(f"{path} has {max(size, len(content)):,} bytes, and icecore reads at most {most:,}; check it")
    return content


def require_regular(path: Path) -> None:
    """Raise unless the path is a regular file, or a link to one; a missing file is a `FileNotFoundError`."""
    os.close(open_regular(path))


def open_regular(path: Path, follow: bool = True) -> int:
    """Open a regular file for reading without blocking on pipes; return its descriptor."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        handle = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(error.errno, error.strerror, str(path)) from error
    except OSError as error:
        is_link = error.errno == errno.ELOOP and not follow
        reason = "it is a link, which may lead anywhere" if is_link else error.strerror or str(error)
        raise InputError(f"{path} cannot be read: {reason}; put the file itself there") from error
    kind = kind_of(os.fstat(handle).st_mode)
    if kind != "file":
        os.close(handle)
        raise InputError(f"{path} cannot be read: it is a {kind}, not a file; put the file itself there")
    return handle


def kind_of(mode: int) -> str:
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
    return kinds.get(stat.S_IFMT(mode), "device")


def resolved(path: Path) -> Path:
    """Return the path without links; raise `InputError` for links in a circle."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError before Python 3.13
        raise InputError(f"cannot use {path}: its links lead in a circle; choose another path") from error
