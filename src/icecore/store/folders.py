"""User folders outside of any project."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder of recomputable files, in XDG_CACHE_HOME or ~/.cache."""
    return home_of("XDG_CACHE_HOME", ".cache")


def home_of(variable: str, default: str) -> Path:
    named = os.environ.get(variable, "")
    return (Path(named) if Path(named).is_absolute() else Path("~", default).expanduser()) / "icecore"
