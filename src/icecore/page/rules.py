"""The strongest lazy rule of a user's tasks, beside the baselines that a run's author thought of."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from icecore.errors import InputError
from icecore.page.runs import Setting

MOST_TASKS = 12  # a rule takes a second or two
OnDone = Callable[[int, int], None]


def add_lazy_rules(settings: Mapping[str, Setting], folders: Mapping[Path, str], trust: bool, on_done: OnDone) -> None:
    """Add each task's strongest lazy rule to the baselines of its settings, if a finished run's folder has the task.

    Code that came with a run is executed only if it may be; otherwise the recorded baselines stay alone.
    """
    by_task: dict[str, list[Path]] = {}
    for path, setting in folders.items():
        if setting in settings:
            by_task.setdefault(task_of(settings[setting]), []).append(path)
    chosen = list(by_task.items())[:MOST_TASKS]
    for done, (task, paths) in enumerate(chosen, start=1):
        rule = next((rule for path in paths if (rule := rule_of(path, trust)) is not None), None)
        for setting in settings.values():
            if rule is not None and task_of(setting) == task:
                setting.facts["baselines"] = {**rule, **setting.facts.get("baselines", {})}
        on_done(done, len(chosen))


def task_of(setting: Setting) -> str:
    return json.dumps(setting.config["task"], sort_keys=True)


def rule_of(path: Path, trust: bool) -> dict[str, float] | None:
    """Return a run's rule; None if its task cannot be loaded, {} if lazy rules do not apply to it."""
    from icecore.tasks.lazy import strongest_lazy_rule
    from icecore.training import RunFolder

    try:
        rule = strongest_lazy_rule(RunFolder(path, trust).complete_config().task)
    except InputError:
        return None
    return {} if rule is None else {rule.name: rule.accuracy}
