"""Files that are there whole or not at all."""

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
from icecore.store.records import ADDED_LATER, PLACES, Record, Records
from icecore.store.tensors import digest, load_tensors, noted, save_tensors

__all__ = [
    "ADDED_LATER",
    "COMMAND_VARIABLE",
    "PLACES",
    "Record",
    "Records",
    "command",
    "digest",
    "filled_whole",
    "load_tensors",
    "noted",
    "origin",
    "provenance",
    "read_json",
    "remember_source",
    "remove_remains",
    "replacing",
    "require_writable",
    "save_tensors",
    "try_lock",
    "write_json",
    "write_whole",
]
