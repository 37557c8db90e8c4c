"""`icecore tasks`: the tasks, their settings and their baselines."""

import inspect
import itertools
from typing import TYPE_CHECKING

import typer

from icecore.cli.output import JSON_OPTION, print_json, print_table, say, say_wrapped
from icecore.cli.settings import clash_of_flags, task_settings
from icecore.cli.terminal_table import described
from icecore.errors import InputError, in_one_line
from icecore.reporting.table import Table

if TYPE_CHECKING:
    from icecore.tasks import Task

TRIVIAL = 0.99  # accuracy of a lazy rule from which on a task shows nothing more


def command(
    context: typer.Context,
    task: str | None = typer.Argument(None, help="Show this task and its settings: a name or FILE.py:CLASS."),
    check: str | None = typer.Option(
        None, "--check", metavar="FILE.py:CLASS", help="Check that a task of yours meets the contract."
    ),
    json: bool = JSON_OPTION,
) -> None:
    """List the tasks with their baselines; show or check one.

    [bold]Examples[/bold]

    icecore tasks
    icecore tasks needle --max-pairs 4
    icecore tasks --check my_task.py:MyTask

    A baseline is the accuracy of a simple rule that needs no learning, mostly measured on the test items. Only accuracy
    above it is evidence of learning. For one task, icecore also fits lazy rules to training items and scores them on
    the test items: the most frequent answer by position, by last tokens, by the symbols read so far.
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
                str(row["difficulty"]["setting"]) if row["difficulty"] else "",
                baselines_in_words(row["baselines"]),
            )
            for row in descriptions
        ]
        headings = ("task", "version", "presets", "vocabulary", "length", "difficulty", "baselines")
        title = "Tasks with the preset 'released'; baselines are rules that need no learning"
        left = (headings[0], "presets", *headings[-2:])
        print_table(Table(title, headings, rows, left, secondary=("presets", "baselines")))
        say("\nicecore tasks TASK shows a task's example, settings, sensitivity and lazy rules.")


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
            "difficulty": difficulty_of(task),
            "baselines": task.baselines(),
        }
    except (Exception, SystemExit) as error:  # a user's task may raise anything
        if isinstance(error, InputError) or task_class.source_text is None:
            raise
        raise InputError(
            f"{task_class.__name__} fails ({in_one_line(error)}); see icecore tasks --check FILE.py:CLASS"
        ) from error


def difficulty_of(task: "Task") -> dict | None:
    if task.difficulty_setting is None:
        return None
    return {"setting": task.difficulty_setting, "value": task.difficulty, "suggested": list(task.difficulties)}


def baselines_in_words(baselines: dict[str, float]) -> str:
    words = [f"{name.replace('_', ' ')} {value:.5g}".replace(" 0.", " .") for name, value in baselines.items()]
    return ", ".join(words) or "(from the prepared text)"


def show_one(task_class: "type[Task]", settings: dict[str, str], json: bool) -> None:
    from icecore.tasks import make_task
    from icecore.tasks.loading import setting_fields
    from icecore.tasks.rejection import what_is_rejected

    description = describe(task_class, settings)
    task = make_task(task_class, settings=settings)
    rejected = None if task_class.name == "language" else what_is_rejected(task)
    measured = measurements(task)
    if json:
        print_json(description | measured)
        return
    say(f"{description['name']}, version {description['version']}\n")
    say(described(inspect.getdoc(task_class) or ""), end="\n\n")
    presets = task_class.presets if any(task_class.presets.values()) else {"default": {}}
    headings = ("flag", *presets)
    rows = [
        (
            f"--{field.name.replace('_', '-')}",
            *(str(preset.get(field.name, field.default)) for preset in presets.values()),
        )
        for field in setting_fields(task_class)
    ]
    print_table(Table("Settings (each is a flag of the commands that take a task)", headings, rows, headings[:1]))
    given = ", ".join(f"{name} {value}" for name, value in settings.items())
    say(f"\nwith {given or ('the defaults' if 'default' in presets else 'the preset released')}:")
    say(f"vocabulary {description['vocab_size']:,}, length {description['max_length']}")
    say_wrapped(f"baselines: {baselines_in_words(description['baselines'])}")
    if description["difficulty"] is not None:
        suggested = ", ".join(map(str, description["difficulty"]["suggested"]))
        flag = description["difficulty"]["setting"].replace("_", "-")
        say_wrapped(f"difficulty: --{flag}, such as {suggested}" if suggested else f"difficulty: --{flag}")
    if rejected is not None:
        say_wrapped(str(rejected))
    say_measurements(task, measured)


def measurements(task: "Task") -> dict:
    """Return what is measured on random items: theory coordinates and lazy rules."""
    from icecore.tasks import Task
    from icecore.tasks.lazy import lazy_rules
    from icecore.tasks.sensitivity import measure_sensitivity
    from icecore.user_code import reraise_user_error

    with reraise_user_error(f"{task.name} fails"):
        coordinates = task.coordinates()
        sensitivity = None if type(task).solve is Task.solve else measure_sensitivity(task)._asdict()
        rules = {rule.name: rule.accuracies for rule in lazy_rules(task)}
    return {
        "coordinates": None if coordinates is None else coordinates._asdict(),
        "sensitivity": sensitivity,
        "lazy_rules": rules,
    }


def say_measurements(task: "Task", measured: dict) -> None:
    """Print theory coordinates, and lazy rules as a table."""
    coordinates, sensitivity, rules = measured["coordinates"], measured["sensitivity"], measured["lazy_rules"]
    found = []
    if sensitivity is not None:
        most = "" if sensitivity["most"] < 1.01 * sensitivity["mean"] else f", at most {sensitivity['most']:.1f}"
        found.append(f"sensitivity {sensitivity['mean']:.1f}{most} (symbols whose change changes an answer token)")
    if coordinates is not None:
        found += [f"{key.replace('_', ' ')} {value}" for key, value in coordinates.items() if value is not None]
    if found:
        say_wrapped(f"coordinates: {', '.join(found)}")
    if task.no_lazy_rules is not None:
        say_wrapped(f"no lazy rules: {task.no_lazy_rules}")
        return
    headings = ("rule", *(name.replace("_", " ") for name in next(iter(rules.values()))))
    rows = [(name.replace("_", " "), *(f"{value:.4f}" for value in each.values())) for name, each in rules.items()]
    say()
    print_table(Table("Lazy rules, fitted on training items, scored on the test items", headings, rows, ("rule",)))
    strongest, accuracies = next(iter(rules.items()))
    if accuracies["accuracy"] >= TRIVIAL:
        say_wrapped(
            f"the rule '{strongest.replace('_', ' ')}' solves this task: a model that does so shows nothing more"
        )


def check_one(context: typer.Context, spec: str, json: bool) -> None:
    from icecore.tasks import find_task, make_task
    from icecore.tasks.check import Finding, check_task
    from icecore.tasks.rejection import what_is_rejected

    task_class = find_task(spec)
    findings = []
    flags = Finding("no setting has the name of a flag", clash_of_flags(context, task_class))
    for finding in itertools.chain(check_task(lambda: make_task(task_class)), [flags]):
        is_new = finding.problem not in [each.problem for each in findings]
        findings.append(finding)
        if not json:
            say(f"{'ok' if finding.problem is None else 'NO':>3}  {finding.rule}")
            if finding.problem is not None:
                say_wrapped(f"     {finding.problem if is_new else 'as above'}", hanging="     ")
    problems = list(dict.fromkeys(each.problem for each in findings if each.problem is not None))
    measured = {} if problems else measurements(make_task(task_class))
    if json:
        print_json(
            {
                "ok": not problems,
                "findings": [{"rule": finding.rule, "problem": finding.problem} for finding in findings],
                **measured,
            }
        )
    if problems:
        others = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise InputError(f"{spec} breaks the contract: {problems[0]}{others}")
    if not json:
        say(f"{spec} meets the contract.")
        task = make_task(task_class)
        rejected = what_is_rejected(task)
        if rejected is not None:
            say_wrapped(str(rejected))
        say_measurements(task, measured)
