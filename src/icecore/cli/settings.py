"""Task settings as flags: `--max-pairs 4 --query=marker`, for every field of every task."""

from typing import TYPE_CHECKING, Any

import typer

from icecore.cli.sweeps import warn
from icecore.errors import require, unknown_name

if TYPE_CHECKING:
    from icecore.models import Model
    from icecore.tasks import Task

OF_ANY_MODEL = ("width", "layers", "heads", "init", "gain", "position_init")  # flags that a model of any kind may have
Command = Any  # click's class, which typer bundles or imports, depending on its version
# Context settings that let a command receive flags it does not declare.
TAKES_TASK_SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True}


def task_settings(context: typer.Context, task: "str | type[Task]") -> dict[str, str]:
    """Return the task's flags as {"max_pairs": "4", "query": "marker"}."""
    from icecore.tasks import find_task

    task_class = find_task(task) if isinstance(task, str) else task
    return read_flags(context, task if isinstance(task, str) else task.name, task_flags(context, task_class))


def settings_given(context: typer.Context, task: str, *models: "type[Model]") -> tuple[dict[str, str], dict[str, str]]:
    """Return the task's flags, and the flags that are settings of the models alone."""
    from icecore.models import settings_of_model
    from icecore.tasks import find_task

    of_task = task_flags(context, find_task(task))
    names = {
        name: name.replace("_", "-")
        for model in models
        for name in settings_of_model(model)
        if name not in OF_ANY_MODEL
    }
    for flag in names.values():
        require(flag not in flags_of(context.command), taken(flag, context.command, "model"))
        require(flag not in of_task, f"--{flag} would be a setting of the task and of the model: rename one of them")
    given = read_flags(context, task, [*of_task, *names.values()])
    return (
        {name: value for name, value in given.items() if name not in names},
        {name: value for name, value in given.items() if name in names},
    )


def task_flags(context: typer.Context, task_class: "type[Task]") -> list[str]:
    from icecore.tasks.loading import setting_fields

    flags = [field.name.replace("_", "-") for field in setting_fields(task_class)]
    own_flags = flags_of(context.command)
    for flag in flags:
        require(flag not in own_flags, taken(flag, context.command))
    return flags


def read_flags(context: typer.Context, task: str, known: list[str]) -> dict[str, str]:
    """Return the values given for the known flags, by setting name."""
    options = [option for parameter in context.command.params for option in parameter.opts]
    own_flags = [option.removeprefix("--") for option in options if option.startswith("--")]
    settings: dict[str, str] = {}
    rest = iter(context.args)
    for argument in rest:
        require(argument.startswith("--"), f"unexpected argument '{argument}'; settings are given as --NAME VALUE")
        name, equals, value = argument[2:].partition("=")
        if name not in known:
            listed_by = f"icecore {context.info_name} --help and icecore tasks {task} list all"
            raise unknown_name(f"flag of {context.info_name} {task}", name, known + own_flags, listed_by)
        if not equals:
            value = next(rest, "")
            require(value != "", f"--{name} needs a value: --{name} VALUE")
        settings[name.replace("-", "_")] = value
    return settings


def flags_of(command: Command) -> list[str]:
    return [str(parameter.name).replace("_", "-") for parameter in command.params]


def taken(name: str, command: Command, whose: str = "task") -> str:
    return f"{command.name} has a flag --{name}: give the {whose}'s setting another name"


def clash_of_flags(context: typer.Context, task_class: "type[Task]") -> str | None:
    """Return an error text if a setting has the name of a flag of any command that takes settings as flags."""
    from icecore.tasks.loading import setting_fields

    for command in context.find_root().command.commands.values():  # type: ignore[attr-defined]
        if TAKES_TASK_SETTINGS.items() <= command.context_settings.items():
            for field in setting_fields(task_class):
                if field.name.replace("_", "-") in flags_of(command):
                    return taken(field.name.replace("_", "-"), command)
    return None


def checked_task(name: str, preset: str, settings: dict[str, str]) -> "Task":
    """Make the task; validate a user's own task before anything uses it."""
    from icecore.tasks import TASKS, make_task
    from icecore.tasks.check import require_task
    from icecore.tasks.rejection import what_is_rejected

    if name in TASKS:
        return make_task(name, preset, settings)
    made = require_task(lambda: make_task(name, preset, settings), name)
    rejected = what_is_rejected(made)
    if rejected is not None and rejected.is_much:
        warn(str(rejected))
    return made
