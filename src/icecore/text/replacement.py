"""Replace a prepared text: the new one is built in a hidden folder inside the old one's, then moved over it."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from icecore.errors import InputError, require
from icecore.store.prepared import MANIFEST, NEW, OUTPUTS, PLAN


@contextlib.contextmanager
def built_beside(folder: Path) -> Iterator[Path]:
    """Yield an empty folder; what is prepared there replaces the text in `folder`, which stays until then."""
    is_ours = any((folder / name).exists() for name in (MANIFEST, PLAN))
    foreign = [name for name in OUTPUTS if (folder / name).exists() and not is_ours]
    require(not foreign, f"{folder / ''.join(foreign[:1])} is not part of a prepared text; choose another --out")
    new = folder / NEW
    try:
        new.mkdir()
    except OSError as error:
        raise InputError(f"cannot write {new}: {error.strerror or error}; choose another --out") from error
    try:
        yield new
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    finish_replacement(folder)


def finish_replacement(folder: Path) -> None:
    """Move a complete new text over the old one, or delete an unfinished one. Killed at any point, call it again.

    The old manifest goes first and the new one comes last: no reader sees a manifest of other files.
    """
    new = folder / NEW
    if (new / MANIFEST).exists():
        for name in (MANIFEST, PLAN):
            (folder / name).unlink(missing_ok=True)
        for name in (*OUTPUTS, MANIFEST):
            if (new / name).exists():  # else it was moved before
                os.replace(new / name, folder / name)
    shutil.rmtree(new, ignore_errors=True)
