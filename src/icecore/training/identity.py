"""Identity of a run: its config as JSON, with a hash of the user's code and without paths."""

import dataclasses
import functools
import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any

import icecore
from icecore.errors import InputError
from icecore.models import Model, model_fields
from icecore.store import ADDED_LATER, PLACES
from icecore.tasks import Task
from icecore.tasks.loading import setting_fields
from icecore.user_code import hash_of

UNNAMED = ("optimization", "settings")  # sections of a config that `differences` does not name
COPIES = {"task": "task.py", "model": "model.py"}  # copies of user files in a run folder
START = "start"  # part of a config: where its initial parameters come from, if not from its seeds


def through_json(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings after a JSON round trip (tuples become lists), to compare them with stored ones."""
    return json.loads(json.dumps(settings))


def from_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Turn the lists of JSON back into tuples, which frozen tasks and models need."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


def require_unchanged(value: Mapping[str, Any], made: Task | Model, kind: str) -> None:
    """Raise if a class registered in Python is not the one of the run."""
    if value.get("source") != origin_of(made).get("source"):
        raise InputError(
            f"{value['name']} is not the {kind} of the run: the class has changed; restore it, or train again"
        )


def origin_of(made: Task | Model) -> dict[str, str | None]:
    """Return class, source hash and file of a user's task or model; the file is not part of the run id.

    For a class registered in Python, return a hash of its source, if available.
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
    """Return a task's settings and, separately, the paths of its data, if any."""
    return split_settings(task, setting_fields(type(task)))


def settings_of_model(model: Model) -> dict[str, dict[str, Any]]:
    """Return a model's settings and, separately, the path of its weights, if any."""
    return split_settings(model, model_fields(type(model)))


def split_settings(made: Task | Model, fields: Sequence[dataclasses.Field]) -> dict[str, dict[str, Any]]:
    settings = recorded(made, [field for field in fields if not field.metadata.get("where")])
    where = recorded(made, [field for field in fields if field.metadata.get("where")])
    return {"settings": through_json(settings)} | ({"where": through_json(where)} if where else {})


def recorded(made: Task | Model, fields: Sequence[dataclasses.Field]) -> dict[str, Any]:
    """Return the values of these fields, except later-added ones at their default."""
    values = ((field, getattr(made, field.name)) for field in fields)
    return {
        field.name: value for field, value in values if value != field.default or not field.metadata.get(ADDED_LATER)
    }


def name_of(config: Mapping[str, Any]) -> str:
    """Return a hash of a JSON config without its paths."""
    return hashlib.sha256(json.dumps(without_place(config), sort_keys=True).encode()).hexdigest()[:12]


def without_place(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON config without the paths of data and user files, and without the place of its start."""
    parts = [*COPIES, *([START] if START in config else [])]
    return dict(config) | {
        part: {key: value for key, value in config.get(part, {}).items() if key not in PLACES} for part in parts
    }


def setting_of(config: Mapping[str, Any]) -> str:
    """Return the id of a config without seeds and precision."""
    return name_of({key: value for key, value in config.items() if key not in ("seeds", "precision")})


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
