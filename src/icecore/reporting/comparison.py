"""What a comparison of one's own gave: a row a line of its figure, a column a width."""

import functools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from icecore.errors import InputError, require, unknown_name
from icecore.models import Model
from icecore.reporting.claim import seeds_in_words
from icecore.reporting.figures.widths import Point
from icecore.reporting.table import Table
from icecore.store import Records
from icecore.sweeps.cells import Cell
from icecore.sweeps.comparison import USUAL, Seeds, comparison, recorded, train_missing
from icecore.tasks import Task
from icecore.tasks.loading import setting_fields
from icecore.training import Progress, numbered


def compare(
    tasks: Task | Sequence[Task],
    bodies: Mapping[str, Sequence[Model]],
    trainables: Sequence[str] = USUAL,
    seeds: Seeds = 3,
    *,
    out: Path | str = "runs",
    preset: str = "released",
    device: str = "auto",
    precision: str = "auto",
    metric: str = "accuracy",
    on_progress: Callable[[str, Progress], None] | None = None,
    **training: Any,
) -> list[Point]:
    """Train what is missing under `out`, and return what all of it gave, of one task or of several.

    `bodies` has each body at its widths, by its name. `on_progress` gets the name of a population and its progress.
    What is not said of the training (steps, batch, lr, ...) is the preset's.
    """
    each = [tasks] if isinstance(tasks, Task) else tasks
    cells = [cell for task in each for cell in comparison(task, bodies, trainables, preset, training)]
    require_names(cells)
    require_metric(metric, each)
    report = on_progress
    watch_of = (lambda _: None) if report is None else (lambda planned: functools.partial(report, planned.label))
    failures = train_missing(cells, seeds, Path(out), device, precision, watch_of)
    if failures:
        raise InputError("; ".join(f"{failure.label} failed: {failure.reason}" for failure in failures))
    return points_of(cells, seeds, Records(Path(out)), device, precision, metric)


def points_of(
    cells: Sequence[Cell],
    seeds: Seeds,
    records: Records,
    device: str = "auto",
    precision: str = "auto",
    metric: str = "accuracy",
) -> list[Point]:
    """What is recorded of the cells, of these seeds, in %. Baselines are of the accuracy."""
    require_names(cells)
    labels = labels_of(cell.task for cell in cells)
    require_metric(metric, labels)
    widths = tuple(sorted({cell.model.width for cell in cells}))
    baselines = {
        task: 100 * max(task.baselines().values(), default=0.0) if metric == "accuracy" else None for task in labels
    }
    found: list[Point] = []
    for cell, runs in recorded(cells, seeds, records, device, precision):
        measured = sorted((100 * run[metric], run["seed"]) for run in runs if metric in run)
        if measured:
            values, of_seeds = zip(*measured, strict=True)
            task = cell.task
            found.append(
                Point(labels[task], cell.name.line, cell.model.width, values, baselines[task], widths, of_seeds)
            )
    return found


def require_metric(metric: str, tasks: Iterable[Task]) -> None:
    """All of the tasks measure it."""
    for task in tasks:
        if metric not in task.metrics():
            raise unknown_name(f"metric of {task.name}", metric, task.metrics())


def require_names(cells: Sequence[Cell]) -> None:
    """No two cells have one place in table and figure."""
    names: dict[tuple[Task, str, int], Cell] = {}
    for cell in cells:
        other = names.setdefault((cell.task, cell.name.line, cell.model.width), cell)
        require(
            other is cell or other.setting == cell.setting,
            f"two different cells are called '{cell.label}': give bodies names of their own, or compare one by one",
        )


def labels_of(tasks: Iterable[Task]) -> dict[Task, str]:
    """What tasks are called: by name, and where several have one name by the settings in which they differ."""
    found = dict.fromkeys(tasks, "")
    for task in found:
        alike = [other for other in found if other.name == task.name]
        differing = [
            field.name
            for field in setting_fields(type(task))
            if len({repr(getattr(other, field.name, None)) for other in alike}) > 1
        ]
        found[task] = ", ".join([task.name, *(f"{name} {getattr(task, name)}" for name in differing)])
    return found


def table_of(cells: Sequence[Cell], points: Sequence[Point], seeds: Seeds, title: str = "") -> Table:
    """Lay out medians, with the least and the most of seeds that differ, and how many if not all."""
    widths = sorted({cell.model.width for cell in cells})
    labels = labels_of(cell.task for cell in cells)
    at = {(point.task, point.line, point.width): point for point in points}
    count = len(numbered(seeds))
    rows = [
        (
            line if len(labels) == 1 else f"{label}, {line}",
            *(in_words(at.get((label, line, width)), count) for width in widths),
        )
        for label, line in dict.fromkeys((labels[cell.task], cell.name.line) for cell in cells)
    ]
    return Table(title, ("width", *map(str, widths)), rows, left=("width",))


def in_words(point: Point | None, seeds: int) -> str:
    if point is None:
        return "-"
    least, most = f"{point.values[0]:.1f}", f"{point.values[-1]:.1f}"
    spread = "" if least == most else f" ({least} to {most})"
    count = "" if len(point.values) == seeds else f", {seeds_in_words(len(point.values))}"
    return f"{statistics.median(point.values):.1f}{spread}{count}"
