"""Tensors on disk: safetensors, written atomically, with a checksum verified on reading."""

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from icecore.errors import InputError, printable_line
from icecore.store.files import replacing
from icecore.store.reading import require_regular

Kind = TypeVar("Kind")
WEIGHT_TYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
AGAIN = "delete it, and train again (icecore train then needs --resume)"


def digest(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """Return the SHA-256 of the tensors' names, types, shapes and bytes, sorted by name."""
    sha = hashlib.sha256()
    for name, tensor in sorted(tensors):
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        sha.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return sha.hexdigest()


def digest_of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def save_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
    """Write tensors with notes (any JSON) and a checksum, atomically. Equal tensors and notes give equal bytes."""
    # Copies: safetensors rejects tensors that share memory.
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps(notes)
    metadata = {"notes": text, "notes_sha256": digest_of_text(text), "sha256": digest(tensors.items())}
    with replacing(path, own_folder=True) as temporary:  # safetensors writes a temporary file beside it
        try:
            safetensors.torch.save_file(tensors, temporary, metadata)
            sort_header(temporary)
        except safetensors.SafetensorError as error:  # which wraps OSErrors
            raise OSError(str(error)) from error


def sort_header(path: Path) -> None:
    """Sort the header, whose metadata safetensors writes in an order that changes from process to process."""
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        if len(text) <= length:  # always, unless safetensors learns to write less
            file.seek(8)
            file.write(text.ljust(length))


def shapes_of(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor in a file; only its header is read."""
    with opened(path) as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 (not a dict)


def require_shapes(path: Path, wanted: Mapping[str, tuple[int, ...]], way_out: str = AGAIN) -> None:
    """Raise unless the header has exactly these tensors; whoever loads them then allocates no more than that."""
    found = shapes_of(path)
    wrong = next((name for name in (*wanted, *found) if found.get(name) != wanted.get(name)), None)
    if wrong is not None:
        raise InputError(f"{path} does not fit config.json: {printable_line(wrong)} differs; {way_out}")


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a file of tensors; raise if it is missing, damaged or not a file."""
    try:
        require_regular(path)
        with safetensors.safe_open(path, framework="pt") as file:
            yield file
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; check the path") from None
    except (OSError, safetensors.SafetensorError) as error:
        raise InputError(f"{path} is damaged ({error}); {AGAIN}") from error


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and notes of a file; raise if it is damaged."""
    with opened(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        metadata = file.metadata() or {}
    if metadata.get("sha256") != digest(tensors.items()):
        raise InputError(f"{path} is damaged: its checksum is wrong; {AGAIN}")
    return tensors, notes_in(path, metadata)


def notes_of(path: Path) -> dict[str, Any]:
    """Return the notes of a file; only its header is read."""
    with opened(path) as file:
        return notes_in(path, file.metadata() or {})


def notes_in(path: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    text = metadata.get("notes", "")
    if metadata.get("notes_sha256") not in (None, digest_of_text(text)):  # older files have none
        raise InputError(f"{path} is damaged: its checksum is wrong; {AGAIN}")
    try:
        notes = json.loads(text)
    except (ValueError, RecursionError):
        notes = None
    if not isinstance(notes, dict):
        raise InputError(f"{path} is damaged: it has no notes; {AGAIN}")
    return notes


def load_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return a file's tensors and notes; raise unless all values are finite numbers."""
    tensors, notes = load_tensors(path)
    for name, value in tensors.items():
        if value.dtype not in WEIGHT_TYPES or not bool(value.isfinite().all()):
            raise InputError(f"{path} is damaged: {name} has values that are not finite numbers; {AGAIN}")
    return tensors, notes


def noted(path: Path, notes: Mapping[str, Any], name: str, kind: type[Kind]) -> Kind:
    """Return the note of this name; raise unless it has this type."""
    value = notes.get(name)
    if type(value) is not kind:
        raise InputError(f"{path} is damaged: {name} is {value!r} in its notes; {AGAIN}")
    return value
