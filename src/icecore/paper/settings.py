"""Settings of cells and parameter counts, cached between commands.

A setting is a hash of a whole config. Computing one imports torch and builds tasks and models, which takes seconds; the
table itself prints in a tenth of one. Both depend only on this package's source, whose hash names the cache file.
"""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from icecore.errors import InputError
from icecore.store.files import write_json
from icecore.store.folders import cache_folder
from icecore.store.provenance import source

PATTERN = "settings-*.json"
remembered: dict[str, str] | None = None  # None unless a command uses the cache


def known_setting(key: str, compute: Callable[[], str]) -> str:
    """Return the setting of a key, from the cache or computed."""
    if remembered is None:
        return compute()
    if key not in remembered:
        remembered[key] = compute()
    return remembered[key]


@contextlib.contextmanager
def remembered_settings() -> Iterator[None]:
    """Load cached settings for the block, and save new ones after it."""
    global remembered
    path = cache_folder() / PATTERN.replace("*", source())
    remembered = read(path)
    before = len(remembered)
    try:
        yield
        if len(remembered) > before:
            keep(path, remembered)
    finally:
        remembered = None


def read(path: Path) -> dict[str, str]:
    """Return the settings in a cache file, none if it is damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    is_right = isinstance(found, dict) and all(isinstance(value, str) for value in found.values())
    return found if is_right else {}


def keep(path: Path, settings: dict[str, str]) -> None:
    """Write settings, and delete the caches of older sources. Ignore a read-only folder."""
    with contextlib.suppress(OSError, InputError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, settings)
        for old in path.parent.glob(PATTERN):
            if old != path:
                old.unlink(missing_ok=True)
