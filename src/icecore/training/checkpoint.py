"""Read a checkpoint: its header is checked before its tensors are read."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from icecore.errors import require
from icecore.store.record_schema import is_duration
from icecore.store.tensors import AGAIN, load_tensors, noted, notes_of, require_shapes


def step_of_checkpoint(path: Path) -> tuple[int, float]:
    """Return its step, and the seconds of training until it."""
    notes = notes_of(path)
    seconds = notes.get("seconds", 0.0)
    require(is_duration(seconds), f"{path} is damaged: its seconds are {str(seconds)[:60]!r}; {AGAIN}")
    return noted(path, notes, "step", int), float(seconds)


def read_checkpoint(path: Path, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return its tensors; raise unless they have the names and shapes of these, and are of floating point."""
    require_shapes(path, {name: tuple(value.shape) for name, value in like.items()})
    tensors, _ = load_tensors(path)
    for name, value in tensors.items():
        require(value.is_floating_point(), f"{path} is damaged: {name} is of type {value.dtype}; {AGAIN}")
    return tensors
