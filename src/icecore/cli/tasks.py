"""`icecore tasks`: the tasks, their settings and their baselines."""

import inspect
import itertools
from typing import TYPE_CHECKING

import typer

from icecore.cli.output import JSON_OPTION, print_json, print_table, say
from icecore.cli.settings import clash_of_flags, task_settings
from icecore.errors import InputError, in_one_line
from icecore.reporting.table import Table

if TYPE_CHECKING:
    from icecore.tasks import Task


def command(
    context: typer.Context,
    task: str | None = typer.Argument(None, help="Show this task and its settings: a name or FILE.py:CLASS."),
    check: str | None = typer.Option(
        None, "--check", metavar="FILE.py:CLASS", help="Check that a task of yours meets the contract."
    ),
    json: bool = JSON_OPTION,
) -> None:
    """List the tasks with their presets and baselines; or show, or check, one task.

    [bold]Examples[/bold]

    icecore tasks
    icecore tasks needle --max-pairs 4
    icecore tasks --check my_task.py:MyTask

    A baseline is the accuracy of a simple rule that needs no learning, mostly measured on the test items. Only accuracy
    above it is evidence of learning.
    """
    from icecore.tasks import TASKS, find_task

    if check is not None:
        if task is not None:
            raise InputError(f"--check takes the class to check; drop the other argument, '{task}'")
        check_one(context, check, json)
    elif task is not None:
        show_one(find_task(task), task_settings(context, task), json)
    elif json:
        print_json({"tasks": [describe(task_class) for task_class in TASKS.values()]})
    else:
        descriptions = [describe(task_class) for task_class in TASKS.values()]
        rows = [
            (
                str(row["name"]),
                str(row["version"]),
                ", ".join(row["presets"]),
                f"{row['vocab_size']:,}",
                str(row["max_length"]),
                baselines_in_words(row["baselines"]),
            )
            for row in descriptions
        ]
        headings = ("task", "version", "presets", "vocabulary", "length", "baselines")
        title = "Tasks with the preset 'released'; baselines are rules that need no learning"
        print_table(Table(title, headings, rows, (headings[0], "presets", headings[-1])))
        say("\nicecore tasks TASK shows a task's example and settings.")


def describe(task_class: "type[Task]", settings: dict[str, str] | None = None) -> dict:
    from icecore.tasks import make_task

    try:
        task = make_task(task_class, settings=settings)
        return {
            "name": task.name,
            "version": task.version,
            "presets": list(task.presets),
            "vocab_size": task.vocab_size,
            "max_length": task.max_length,
            "baselines": task.baselines(),
        }
    except (Exception, SystemExit) as error:  # a user's task may raise anything
        if isinstance(error, InputError) or task_class.source_text is None:
            raise
        raise InputError(
            f"{task_class.__name__} fails ({in_one_line(error)}); see icecore tasks --check FILE.py:CLASS"
        ) from error


def baselines_in_words(baselines: dict[str, float]) -> str:
    words = [f"{name.replace('_', ' ')} {value:.5g}".replace(" 0.", " .") for name, value in baselines.items()]
    return ", ".join(words) or "(from the prepared text)"


def show_one(task_class: "type[Task]", settings: dict[str, str], json: bool) -> None:
    from icecore.tasks import make_task
    from icecore.tasks.loading import setting_fields
    from icecore.tasks.rejection import what_is_rejected

    description = describe(task_class, settings)
    rejected = None if task_class.name == "language" else what_is_rejected(make_task(task_class, settings=settings))
    if json:
        print_json(description)
        return
    say(f"{description['name']}, version {description['version']}\n")
    say(inspect.getdoc(task_class), end="\n\n")
    presets = task_class.presets if any(task_class.presets.values()) else {"default": {}}
    headings = ("flag", *presets)
    rows = [
        (
            f"--{field.name.replace('_', '-')}",
            *(str(preset.get(field.name, field.default)) for preset in presets.values()),
        )
        for field in setting_fields(task_class)
    ]
    print_table(Table("Settings (each is a flag of the commands that take a task)", headings, rows, headings))
    given = ", ".join(f"{name} {value}" for name, value in settings.items())
    say(f"\nwith {given or ('the defaults' if 'default' in presets else 'the preset released')}:")
    say(f"vocabulary {description['vocab_size']:,}, length {description['max_length']}")
    say(f"baselines: {baselines_in_words(description['baselines'])}")
    if rejected is not None:
        say(rejected)


def check_one(context: typer.Context, spec: str, json: bool) -> None:
    from icecore.tasks import find_task, make_task
    from icecore.tasks.check import Finding, check_task
    from icecore.tasks.rejection import what_is_rejected

    task_class = find_task(spec)
    findings = []
    flags = Finding("no setting has the name of a flag", clash_of_flags(context, task_class))
    for finding in itertools.chain(check_task(lambda: make_task(task_class)), [flags]):
        findings.append(finding)
        if not json:
            say(f"{'ok' if finding.problem is None else 'NO':>3}  {finding.rule}")
            if finding.problem is not None:
                say(f"     {finding.problem}")
    problems = [finding.problem for finding in findings if finding.problem is not None]
    if json:
        print_json(
            {
                "ok": not problems,
                "findings": [{"rule": finding.rule, "problem": finding.problem} for finding in findings],
            }
        )
    if problems:
        others = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise InputError(f"{spec} breaks the contract: {problems[0]}{others}")
    if not json:
        say(f"{spec} meets the contract.")
        rejected = what_is_rejected(make_task(task_class))
        if rejected is not None:
            say(rejected)
