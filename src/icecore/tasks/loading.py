"""Make a task from a name or file and its settings."""

import dataclasses
import types
import typing
from collections.abc import Mapping

from icecore.errors import InputError, require_kind, unknown_name
from icecore.tasks.base import Task
from icecore.user_code import is_file, load_class


def find_task(name: str) -> type[Task]:
    """Return the task class of this name, or the class of `FILE.py:CLASS`."""
    from icecore.tasks import TASKS

    if is_file(name):
        return load_class(name, Task, "task")
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    return TASKS[name]


def make_task(name: str | type[Task], preset: str = "released", settings: Mapping[str, object] | None = None) -> Task:
    """Make the task with its preset's settings, overridden by `settings`; values may be strings."""
    task_class = find_task(name) if isinstance(name, str) else name
    if preset not in task_class.presets:
        raise unknown_name(f"preset of {task_class.name}", preset, task_class.presets)
    return task_class(**{**task_class.presets[preset], **parsed(task_class, settings or {})})


def with_settings(task: Task, settings: Mapping[str, object]) -> Task:
    """Return a copy of the task with these `settings` changed; values may be strings."""
    own = {field.name: getattr(task, field.name) for field in setting_fields(type(task))}
    return type(task)(**{**own, **parsed(type(task), settings)})


def parsed(task_class: type[Task], settings: Mapping[str, object]) -> dict[str, object]:
    names = [field.name for field in setting_fields(task_class)]
    types_of = typing.get_type_hints(task_class)
    values = {}
    for key, value in settings.items():
        if key not in names:
            raise unknown_name(f"setting of {task_class.name}", key, names)
        kind = types_of[key]
        values[key] = parse_value(key, value, kind) if isinstance(value, str) else value
        require_kind(key, values[key], kind)
    return values


def setting_fields(task_class: type[Task]) -> list[dataclasses.Field]:
    """Return the dataclass fields that text can set: all but those that take a function."""
    if not dataclasses.is_dataclass(task_class):
        raise InputError(f"{task_class.__name__} must be a dataclass: put @dataclass(frozen=True) above it")
    return [field for field in dataclasses.fields(task_class) if field.repr]


def parse_value(key: str, text: str, kind: object) -> object:
    """Parse a setting as its declared type: int, float, bool, str, a Literal, or one of these or None."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        if type(None) in typing.get_args(kind) and text.lower() == "none":
            return None
        kind = next(option for option in typing.get_args(kind) if option is not type(None))
    if typing.get_origin(kind) is typing.Literal:
        known = {str(option): option for option in typing.get_args(kind)}
        if text not in known:
            raise unknown_name(f"value of {key}", text, known)
        return known[text]
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise InputError(f"{key} must be true or false, got '{text}'")
        return text.lower() == "true"
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            noun = "a whole number" if kind is int else "a number"
            raise InputError(f"{key} must be {noun}, got '{text}'") from None
    if kind is not str:
        raise InputError(f"{key} is declared as {kind}, which no flag can set: set it in Python, or change its default")
    return text
