"""One-dimensional `.npy` files, written and read in pieces."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from icecore.store.files import replacing
from icecore.store.reading import require_regular

HEADER_BYTES = 128
PIECE = 2**24  # values processed at a time


def write_array(path: Path, pieces: Iterable[np.ndarray], dtype: np.dtype) -> None:
    """Write the pieces as one array, atomically; only one piece is in memory."""
    with replacing(path) as temporary, temporary.open("wb") as stream:
        stream.write(bytes(HEADER_BYTES))  # placeholder: the length is known at the end
        length = 0
        for piece in pieces:
            stream.write(piece.astype(dtype, copy=False).tobytes())
            length += len(piece)
        stream.seek(0)
        stream.write(header(length, dtype))


def read_array(path: Path) -> np.ndarray:
    """Return an array as a map of its file; raise `ValueError` unless it is one of whole numbers from 0."""
    require_regular(path)
    values = np.load(path, mmap_mode="r", allow_pickle=False)
    is_right = isinstance(values, np.ndarray) and values.ndim == 1  # not an archive of several
    if not is_right or not np.issubdtype(values.dtype, np.unsignedinteger):
        raise ValueError(f"{path.name} is not an array of tokens")
    return values


def header(length: int, dtype: np.dtype) -> bytes:
    """Return a header of format version 1.0, always 128 bytes long; SOURCE: numpy.lib.format."""
    words = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({length},), }}"
    room = HEADER_BYTES - 10
    return b"\x93NUMPY\x01\x00" + room.to_bytes(2, "little") + words.ljust(room - 1).encode("latin1") + b"\n"


def in_pieces(values: np.ndarray) -> Iterator[np.ndarray]:
    for begin in range(0, len(values), PIECE):
        yield values[begin : begin + PIECE]
