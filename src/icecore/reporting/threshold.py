"""Find the smallest sufficient width in Python: `ice.threshold`."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from icecore.errors import InputError, require, unknown_name
from icecore.models import Model, Transformer, settings_of_model
from icecore.reporting.smallest_widths import Result, SmallestWidths
from icecore.sweeps.budget import Budget, parse_budget, too_short
from icecore.sweeps.comparison import Seeds
from icecore.sweeps.halving import Measured, Plan, Trial
from icecore.sweeps.width_search import BATCH, STEPS, WIDTHS, Question, ReportOf, Trials, search_all, starts_of
from icecore.tasks import Task
from icecore.tasks.loading import setting_fields, with_settings
from icecore.training import Progress, numbered, pick_device
from icecore.training.make_config import checked_model, checked_task

DIFFICULTY = "difficulty"


def threshold(
    task: Task | str,
    model: Model | None = None,
    *,
    target: float = 0.99,
    budget: float | str = "10m",
    widths: Sequence[int] | None = None,
    over: str | None = None,
    seeds: Seeds = 3,
    steps: int = STEPS,
    batch: int = BATCH,
    rates: Sequence[float] = (),
    gains: Sequence[float] = (),
    init: str | None = None,
    out: Path | str = "runs",
    preset: str = "released",
    device: str = "auto",
    precision: str = "auto",
    force: bool = False,
    on_progress: Callable[[str, Progress], None] | None = None,
) -> SmallestWidths:
    """Find the smallest width at which Random, and Normal, reach the target accuracy, within a budget of time.

    `model` is a body of any width, by default a transformer. `over` is "difficulty", or a setting of the task with its
    values, "length=4,8,16". Rates, gains and initializations are chosen on validation items. Runs are recorded under
    `out` and are not repeated. `on_progress` gets the name of a run and its progress.
    """
    allowed = Budget(parse_budget(budget) if isinstance(budget, str) else budget)
    made, body = checked_task(task, preset), checked_model(Transformer(width=64) if model is None else model)
    plan = plan_of(body, target, widths, numbered(seeds), steps, rates, gains, init, device)
    more = {"batch": batch, "preset": preset, "device": device, "precision": precision, "force": force}
    setting, values, questions = questions_over(made, body, plan, over, **more)
    report = on_progress
    report_of = (lambda _: None) if report is None else (lambda trial: functools.partial(report, str(trial)))
    found = find_widths(questions, allowed, Path(out), report_of)
    return SmallestWidths(found, setting, values)


def plan_of(
    body: Model,
    target: float,
    widths: Sequence[int] | None,
    seeds: tuple[int, ...],
    steps: int,
    rates: Sequence[float] = (),
    gains: Sequence[float] = (),
    init: str | None = None,
    device: str = "auto",
) -> Plan:
    """Return the plan of a search; by default widths are those that this device trains well."""
    require("width" in settings_of_model(type(body)), f"{body.name} has no setting width, so none can be looked for")
    chosen = sorted(set(WIDTHS[pick_device(device).type] if widths is None else widths))
    if widths is None:
        chosen = [width for width in chosen if is_possible(body, width)]
    return Plan(target, tuple(chosen), starts_of(body, rates, gains, init), steps, seeds)


def is_possible(body: Model, width: int) -> bool:
    """Tell whether the body can have this width: heads may need more."""
    copied: Any = body
    try:
        dataclasses.replace(copied, width=width)
    except InputError:
        return False
    return True


def questions_over(
    task: Task, body: Model, plan: Plan, over: str | None, **more: Any
) -> tuple[str | None, tuple[str, ...], list[Question]]:
    """Return the setting in which the questions differ, its values, and a checked question per value."""
    setting, values = parse_over(task, over)
    tasks = [task] if setting is None else [with_settings(task, {setting: value}) for value in values]
    questions = [Question(each, body, plan, **more) for each in tasks]
    for question in questions:
        question.require_sound()
    return setting, tuple(map(str, values)), questions


def parse_over(task: Task, over: str | None) -> tuple[str | None, list[Any]]:
    """Read `difficulty`, `difficulty=4,8` or `length=4,8` as a setting and its values."""
    if over is None:
        return None, []
    name, _, listed = over.partition("=")
    name = name.strip().replace("-", "_")
    names = [field.name for field in setting_fields(type(task))]
    if name == DIFFICULTY and name not in names:
        require(
            task.difficulty_setting is not None,
            f"{task.name} names no difficulty_setting: give a setting and its values, such as --over {names[0]}=4,8"
            if names
            else f"{task.name} has no settings to vary: drop --over",
        )
        setting = str(task.difficulty_setting)
    else:
        setting = name
    if setting not in names:
        raise unknown_name(f"setting of {task.name}", setting, [DIFFICULTY, *names])
    values = [part.strip() for part in listed.split(",") if part.strip()]
    if not values and setting == task.difficulty_setting:
        values = [*task.difficulties]
    require(bool(values), f"--over {setting} needs values: --over {setting}=4,8,16")
    return setting, list(dict.fromkeys(values))


def find_widths(
    questions: Sequence[Question],
    budget: Budget,
    folder: Path,
    report_of: ReportOf = lambda _: None,
    on_done: Callable[[Trial, Measured], None] = lambda *_: None,
    make: Callable[..., Trials] = Trials,
) -> list[Result]:
    """Answer the questions within the budget; raise if not one run fits into it."""
    started: list[Trials] = []

    def measure_of(question: Question, part: Budget) -> Any:
        started.append(make(question, folder, part, report_of, on_done))
        return started[-1].measure

    found = search_all(questions, budget, measure_of)
    left_out = next((each.out_of_budget for each in found if each.out_of_budget is not None), None)
    if left_out is not None and not any(trials.trained + trials.known for trials in started):
        raise too_short(left_out, budget)
    return [Result(question, each) for question, each in zip(questions, found, strict=True)]
