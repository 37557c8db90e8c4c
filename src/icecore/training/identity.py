"""What names a run: its config as JSON, with a hash of the user's code, and without where files lie."""

import dataclasses
import functools
import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import icecore
from icecore.errors import InputError
from icecore.models import Model
from icecore.store import ADDED_LATER, PLACES
from icecore.tasks import Task
from icecore.tasks.loading import setting_fields
from icecore.user_code import hash_of

UNNAMED = ("optimization", "settings")  # parts of a config that a difference does not name
COPIES = {"task": "task.py", "model": "model.py"}  # of a user's files, in the folder of a run


def as_read(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as JSON gives them back, tuples as lists, so that what is stored compares with what is made."""
    return json.loads(json.dumps(settings))


def from_read(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a task or model takes them: frozen, so what JSON has as a list was a tuple."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


def found_again(value: Mapping[str, Any], kind: str, folder: Path | None) -> str:
    """The name of a task or model; of a user's, the class in the copy of its file, or else where that lay."""
    if "file" not in value:
        return value["name"]
    copy = None if folder is None else folder / COPIES[kind]
    return f"{copy if copy is not None and copy.is_file() else value['file']}:{value['class']}"


def require_unchanged(value: Mapping[str, Any], made: Task | Model, name: str, kind: str) -> None:
    if value.get("source") != origin_of(made).get("source"):
        raise InputError(
            f"{name} is not the {kind} of the run: {'the file' if 'file' in value else 'the class'} has changed; put "
            "back what it was, or train again"
        )


def origin_of(made: Task | Model) -> dict[str, str | None]:
    """Of a user's, its class, a hash of its file, and where that lay, which is no part of a run's name.

    Of one that Python has registered, a hash of the class's own text, as far as it can be had.
    """
    if made.source_text is not None:
        return {"class": type(made).__name__, "source": hash_of(made.source_text), "file": made.source_file}
    is_ours = type(made).__module__.partition(".")[0] == icecore.__name__
    text = None if is_ours else text_of(type(made))
    return {} if text is None else {"source": hash_of(text)}


@functools.cache
def text_of(made: type) -> str | None:
    try:
        return inspect.getsource(made)
    except (OSError, TypeError):  # typed into an interpreter
        return None


def settings_of(task: Task) -> dict[str, dict[str, Any]]:
    """What a task is, and apart from it where its data lie, if they lie anywhere."""
    fields = setting_fields(type(task))
    settings = recorded(task, [field for field in fields if not field.metadata.get("where")])
    where = recorded(task, [field for field in fields if field.metadata.get("where")])
    return {"settings": as_read(settings)} | ({"where": as_read(where)} if where else {})


def recorded(made: Task | Model, fields: Sequence[dataclasses.Field]) -> dict[str, Any]:
    """The values of these fields, but for those that came later and have their default."""
    values = ((field, getattr(made, field.name)) for field in fields)
    return {
        field.name: value for field, value in values if value != field.default or not field.metadata.get(ADDED_LATER)
    }


def name_of(config: Mapping[str, Any]) -> str:
    """A hash of a config as JSON, whatever the place of its data."""
    return hashlib.sha256(json.dumps(without_place(config), sort_keys=True).encode()).hexdigest()[:12]


def without_place(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config as JSON, without where its data and a user's files lie."""
    return dict(config) | {
        part: {key: value for key, value in config.get(part, {}).items() if key not in PLACES} for part in COPIES
    }


def differences(first: dict[str, Any], second: dict[str, Any], prefix: str = "") -> list[str]:
    """List where two configs differ, as `lr 0.001, not 0.01`."""
    found = []
    for key in sorted(first.keys() | second.keys()):
        a, b = first.get(key), second.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += differences(a, b, prefix if key in UNNAMED else f"{prefix}{key}.")
        elif a != b:
            found.append(f"{prefix}{key} {a}, not {b}")
    return found
