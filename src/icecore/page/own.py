"""A user's own settings: a table and a chart per task, with accuracy against width."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from icecore.page.runs import Setting
from icecore.reporting.figures.widths import Point, chart_widths
from icecore.store.records import key_of

NO_WIDTH = "runs"  # the column of bodies without a width
MOST_PANELS = 12  # panels per chart; more tasks get the table alone


def own_part(settings: Mapping[str, Setting]) -> list[dict[str, Any]]:
    """Return a group per task name: cells by line and width, and a chart if a finished run has a width."""
    by_task: dict[str, dict[str, Setting]] = {}
    for key, setting in settings.items():
        by_task.setdefault(setting.config["task"]["name"], {})[key] = setting
    return [group_of(name, own) for name, own in sorted(by_task.items())]


def group_of(task: str, settings: Mapping[str, Setting]) -> dict[str, Any]:
    names = names_of(settings)
    cells = [cell_of(key, setting, *names[key]) for key, setting in settings.items()]
    order = {
        key: index for index, key in enumerate(sorted(settings, key=lambda key: sort_key(settings[key], names[key])))
    }
    cells.sort(key=lambda cell: order[cell["setting"]])
    return {"task": task, "cells": cells, "charts": charts_of(task, settings, names)}


def sort_key(setting: Setting, name: tuple[str, str]) -> tuple[str, str, int]:
    return *name, setting.width or 0


def cell_of(key: str, setting: Setting, panel: str, line: str) -> dict[str, Any]:
    """Return a cell as a claim without a paper: medians in %, and one value per finished seed."""
    runs = counted_runs(setting)
    values = [accuracy_of(run) for run in runs]
    return {
        "cell": setting.label,
        "row": line if panel == setting.config["task"]["name"] else f"{panel}, {line}",
        "column": NO_WIDTH if setting.width is None else str(setting.width),
        "setting": key,
        "verdict": "nothing to compare with" if values else "not run",
        "sources": [{"cell": setting.label, "values": values, "runs": list(map(key_of, runs))}] if runs else [],
        "n": len(values),
        "digits": 1,
        "shown": {
            "ours": f"{statistics.median(values):.1f}" if values else "",
            "spread": f"{min(values):.1f} to {max(values):.1f}" if len(values) > 1 else "",
            **({} if (best := best_baseline(setting)) is None else {"baseline": f"{best:.1f}"}),
        },
        "ours": statistics.median(values) if values else None,
        "baseline": best_baseline(setting),
    }


def counted_runs(setting: Setting) -> list[dict[str, Any]]:
    """Return the finished runs by seed, in the precision with the most seeds: precisions are never mixed."""
    finished = [run for run in setting.runs if "accuracy" in run["numbers"]]
    if not finished:
        return []
    (precision, _), *_ = Counter(run["precision"] for run in finished).most_common(1)
    return sorted((run for run in finished if run["precision"] == precision), key=lambda run: run["seed"])


def accuracy_of(run: dict[str, Any]) -> float:
    return 100 * run["numbers"]["accuracy"]


def best_baseline(setting: Setting) -> float | None:
    baselines = setting.facts.get("baselines")
    return 100 * max(baselines.values()) if baselines else None


def names_of(settings: Mapping[str, Setting]) -> dict[str, tuple[str, str]]:
    """Return each setting's panel and line. Where two would share a cell, their unusual settings are added.

    The panel is the task, with the settings in which tasks differ; the line is the trainable set and the body.
    """
    flat = {key: flattened(setting.config) for key, setting in settings.items()}
    of_task = differing(flat, lambda name: name.startswith("task."))
    others = differing(flat, lambda name: not name.startswith("task.") and name != "model.width")
    found = {}
    for key, setting in settings.items():
        panel = ", ".join([setting.config["task"]["name"], *in_words(flat[key], of_task)])
        found[key] = panel, setting.line
    clashes = Counter((*found[key], setting.width) for key, setting in settings.items())
    usual = {name: usual_of([repr(values.get(name)) for values in flat.values()]) for name in others}
    for key, setting in settings.items():
        if clashes[(*found[key], setting.width)] > 1:
            unusual = [name for name in others if repr(flat[key].get(name)) != usual[name]]
            found[key] = found[key][0], ", ".join([setting.line, *in_words(flat[key], unusual)])
    return found


def usual_of(values: Sequence[str]) -> str | None:
    """Return the value that more than half of them have."""
    (value, count), *_ = Counter(values).most_common(1)
    return value if 2 * count > len(values) else None


def flattened(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config's settings by name: `task.modulus`, `model.width`, `lr`, `lr 2` of the second phase."""
    found = {f"{part}.{name}": value for part in ("task", "model") for name, value in config[part]["settings"].items()}
    found |= {name: config.get(name) for name in ("positions", "data_seed")}
    found |= {f"{part}.source": config[part].get("source") for part in ("task", "model")}
    for number, phase in enumerate(config.get("phases") or [config], start=1):
        settings = phase.get("optimization") if isinstance(phase, dict) else None
        for name, value in (settings if isinstance(settings, dict) else {}).items():
            found[name if number == 1 else f"{name} {number}"] = value
    return found


def differing(flat: Mapping[str, Mapping[str, Any]], wanted: Any) -> list[str]:
    names = dict.fromkeys(name for values in flat.values() for name in values if wanted(name))
    return [name for name in names if len({repr(values.get(name)) for values in flat.values()}) > 1]


def in_words(values: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return [f"{name.rpartition('.')[2].replace('_', ' ')} {values.get(name)}" for name in names if name in values]


def charts_of(task: str, settings: Mapping[str, Setting], names: Mapping[str, tuple[str, str]]) -> list[dict[str, Any]]:
    """Return accuracy against width; none if fewer than two widths have finished, or the tasks are too many."""
    points = []
    for key, setting in settings.items():
        runs = counted_runs(setting)
        if runs and setting.width is not None:
            values, keys = tuple(map(accuracy_of, runs)), tuple(map(key_of, runs))
            points.append(Point(*names[key], setting.width, values, best_baseline(setting), (), runs=keys))
    if len({point.width for point in points}) < 2 or len({point.task for point in points}) > MOST_PANELS:
        return []
    return [asdict(chart_widths(points, f"{task}: accuracy against width"))]
