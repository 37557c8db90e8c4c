"""From a name or a file on the command line to a task with its settings."""

import ast
import dataclasses
import importlib.util
import inspect
import sys
import types
import typing
from collections.abc import Mapping
from pathlib import Path

from icecore.errors import InputError, unknown_name
from icecore.tasks.base import Task


def find_task(name: str) -> type[Task]:
    """The task class of this name, or the class of `FILE.py:CLASS`."""
    from icecore.tasks import TASKS

    if name.endswith(".py") or ".py:" in name:
        return load_task_class(name)
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    return TASKS[name]


def make_task(name: str | type[Task], preset: str = "released", settings: Mapping[str, object] | None = None) -> Task:
    """The task with its preset's settings, and `settings` on top; values may be strings."""
    task_class = find_task(name) if isinstance(name, str) else name
    if preset not in task_class.presets:
        raise unknown_name(f"preset of {task_class.name}", preset, task_class.presets)
    fields = {field.name: field for field in setting_fields(task_class)}
    types_of = typing.get_type_hints(task_class)
    values = dict(task_class.presets[preset])
    for key, value in (settings or {}).items():
        if key not in fields:
            raise unknown_name(f"setting of {task_class.name}", key, fields)
        values[key] = parse_value(key, value, types_of[key]) if isinstance(value, str) else value
    return task_class(**values)


def setting_fields(task_class: type[Task]) -> list[dataclasses.Field]:
    """The dataclass fields that can be set by text: all but those that take a function."""
    if not dataclasses.is_dataclass(task_class):
        raise InputError(f"{task_class.__name__} must be a dataclass: put @dataclass(frozen=True) above it")
    return [field for field in dataclasses.fields(task_class) if field.repr]


def parse_value(key: str, text: str, kind: object) -> object:
    """A setting's text as its declared type: int, float, bool, str, a Literal, or one of these or None."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        kind = next(option for option in typing.get_args(kind) if option is not type(None))
    if typing.get_origin(kind) is typing.Literal:
        if text not in typing.get_args(kind):
            raise unknown_name(f"value of {key}", text, map(str, typing.get_args(kind)))
        return text
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
    return text


def require_one_file(path: Path, text: str) -> None:
    """A run keeps the task's file, and its name stands for that: what lies beside the file would be in neither."""
    for node in ast.walk(ast.parse(text)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
        for root in {name.split(".")[0] for name in names}:
            beside = [path.parent / f"{root}.py", path.parent / root]
            if root != "icecore" and any(each.exists() for each in beside) and not is_installed(root, path.parent):
                raise InputError(
                    f"{path} imports {root}, which lies beside it and no run would keep: a task is one file; put both "
                    f"into one, or install {root} as a package"
                )


def is_installed(module: str, here: Path) -> bool:
    """Whether it is found elsewhere than in this folder."""
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return False
    places = [] if found is None else [found.origin, *(found.submodule_search_locations or [])]
    return any(each is not None and not Path(each).resolve().is_relative_to(here.resolve()) for each in places)


def load_task_class(spec: str) -> type[Task]:
    """The class of `FILE.py:CLASS`; without `:CLASS`, the only task class that the file defines."""
    file, _, class_name = spec.partition(":")
    path = Path(file)
    if not path.is_file():
        raise InputError(f"there is no file {file}; give FILE.py:CLASS")
    # Under a name of its own, so that classes of two files never mix.
    module_name = f"icecore_user_task_{path.stem}_{abs(hash(path.resolve()))}"
    module = types.ModuleType(module_name)
    module.__file__ = str(path)
    sys.modules[module_name] = module  # dataclasses and get_type_hints look modules up by name
    try:
        text = path.read_text(encoding="utf-8")
        require_one_file(path, text)
        exec(compile(text, str(path), "exec"), vars(module))
    except BaseException as error:
        del sys.modules[module_name]
        if isinstance(error, KeyboardInterrupt | InputError):
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"{file} does not import ({reason}); mend it and try again") from error
    classes = {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module_name
    }
    if not class_name:
        tasks = [name for name, value in classes.items() if issubclass(value, Task)]
        if len(tasks) != 1:
            known = ", ".join(tasks) or "none"
            raise InputError(f"name the class: {file}:CLASS (tasks in the file: {known})")
        class_name = tasks[0]
    if class_name not in classes:
        raise unknown_name(f"class in {file}", class_name, classes)
    task_class = classes[class_name]
    if not issubclass(task_class, Task):
        raise InputError(f"{class_name} in {file} must be a subclass of icecore.tasks.Task")
    task_class.source_file, task_class.source_text = file, text
    return task_class
