"""Files that are there whole or not at all."""

from icecore.store.files import read_json, remove_remains, write_json, write_whole
from icecore.store.provenance import command, commit, provenance, remember_source, source
from icecore.store.records import Record, Records
from icecore.store.tensors import digest, load_tensors, save_tensors

__all__ = [
    "Record",
    "Records",
    "command",
    "commit",
    "digest",
    "load_tensors",
    "provenance",
    "read_json",
    "remember_source",
    "remove_remains",
    "save_tensors",
    "source",
    "write_json",
    "write_whole",
]
