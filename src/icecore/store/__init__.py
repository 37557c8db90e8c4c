"""Atomic writes, records and provenance. Tensors on disk are in `store.tensors`, which imports torch."""

from icecore.store.files import (
    filled_whole,
    read_json,
    remove_remains,
    replacing,
    require_writable,
    try_lock,
    write_json,
    write_whole,
)
from icecore.store.provenance import COMMAND_VARIABLE, command, origin, provenance, remember_source
from icecore.store.records import ADDED_LATER, INSIDE, PLACES, TRACKS, Record, Records

__all__ = [
    "ADDED_LATER",
    "COMMAND_VARIABLE",
    "INSIDE",
    "PLACES",
    "TRACKS",
    "Record",
    "Records",
    "command",
    "filled_whole",
    "origin",
    "provenance",
    "read_json",
    "remember_source",
    "remove_remains",
    "replacing",
    "require_writable",
    "try_lock",
    "write_json",
    "write_whole",
]
