"""Compare trainable sets, widths and models on any tasks: points, a table and a figure."""

import functools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icecore.errors import InputError, require, unknown_name
from icecore.models import Model
from icecore.reporting.claim import seeds_in_words
from icecore.reporting.figures.widths import Point, draw_widths
from icecore.reporting.table import Table
from icecore.store import Record, Records
from icecore.sweeps.cells import Cell
from icecore.sweeps.comparison import USUAL, Seeds, comparison, recorded, train_in_memory, train_missing
from icecore.tasks import Task
from icecore.tasks.lazy import strongest_baseline
from icecore.tasks.loading import setting_fields
from icecore.training import Progress, numbered
from icecore.training.make_config import checked_model, checked_task, checked_trainable
from icecore.training.run import require_loadable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Bodies = Mapping[str, Sequence[Model] | Model] | Sequence[Model] | Model


class Comparison(list[Point]):
    """Points of a comparison, with their table and figure."""

    def __init__(self, points: Sequence[Point], cells: Sequence[Cell], seeds: Seeds) -> None:
        super().__init__(points)
        self.cells, self.seeds = cells, seeds

    def table(self) -> Table:
        """Return medians in %, a row per line and a column per width, with the baselines below."""
        known = {point.task: point.baseline for point in self if point.baseline is not None}
        notes = tuple(f"{task}: a rule that needs no learning gets {value:.1f} %" for task, value in known.items())
        title = f"In %, median of {seeds_in_words(len(numbered(self.seeds)))} (min to max)"
        return replace(table_of(self.cells, self, self.seeds, title), notes=notes)

    def plot(self) -> "Figure":
        """Draw accuracy against width."""
        return draw_widths(self, "Accuracy against width")

    def __repr__(self) -> str:
        return f"Comparison({'; '.join(map(in_short, self))})"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def in_short(point: Point) -> str:
    """Return a point's task, line, width and median."""
    return f"{point.task}, {point.line} {point.width}: {statistics.median(point.values):.1f} %"


def compare(
    tasks: Task | str | Sequence[Task | str],
    bodies: Bodies,
    trainables: str | Sequence[str | Sequence[str]] = USUAL,
    seeds: Seeds = 3,
    *,
    out: Path | str | None = "runs",
    preset: str = "released",
    device: str = "auto",
    precision: str = "auto",
    metric: str = "accuracy",
    on_progress: Callable[[str, Progress], None] | None = None,
    force: bool = False,
    **training: Any,
) -> Comparison:
    """Train what is missing under `out`, and return the results, for one task or several.

    `bodies` are models, or models by the name of their line: `{"gru": [GRU(64), GRU(128)]}`. `on_progress` gets the
    name of a population and its progress. Training settings (steps, batch, lr, ...) default to the preset's. With
    `out=None` nothing is saved, and tasks or bodies defined in a notebook can be compared.
    """
    each = [checked_task(task, preset) for task in ([tasks] if isinstance(tasks, Task | str) else tasks)]
    parts = [checked_trainable(part) for part in ([trainables] if isinstance(trainables, str) else trainables)]
    cells = [cell for task in each for cell in comparison(task, by_name(bodies), parts, preset, training)]
    require_names(cells)
    require_metric(metric, each)
    report = on_progress
    progress_of = (lambda _: None) if report is None else (lambda job: functools.partial(report, job.label))
    if out is None:
        runs = train_in_memory(cells, seeds, device, precision, progress_of, force)
        return Comparison(points_from(runs, metric), cells, seeds)
    for cell in cells:
        require_loadable(cell.of_one_seed)
    failures = train_missing(cells, seeds, Path(out), device, precision, progress_of, force=force)
    if failures:
        raise InputError("; ".join(f"{failure.label} failed: {failure.reason}" for failure in failures))
    return Comparison(points_of(cells, seeds, Records(Path(out)), device, precision, metric), cells, seeds)


def by_name(bodies: Bodies) -> dict[str, list[Model]]:
    """Return models by the name of their line; without names, by their kind."""
    if isinstance(bodies, Mapping):
        return {name: [checked_model(model) for model in listed(models)] for name, models in bodies.items()}
    found: dict[str, list[Model]] = {}
    for model in listed(bodies):
        found.setdefault(checked_model(model).name, []).append(model)
    return found


def listed(models: Sequence[Model] | Model) -> Sequence[Model]:
    return [models] if isinstance(models, Model | type) else models


def points_of(
    cells: Sequence[Cell],
    seeds: Seeds,
    records: Records,
    device: str = "auto",
    precision: str = "auto",
    metric: str = "accuracy",
) -> list[Point]:
    """Return the recorded points of the cells in %, for these seeds. Baselines are those of accuracy."""
    require_names(cells)
    require_metric(metric, dict.fromkeys(cell.task for cell in cells))
    return points_from(recorded(cells, seeds, records, device, precision), metric)


def points_from(runs: Sequence[tuple[Cell, Sequence[Record]]], metric: str) -> list[Point]:
    """Return a point for each cell that has runs."""
    labels = labels_of(cell.task for cell, _ in runs)
    widths = tuple(sorted({cell.model.width for cell, _ in runs}))
    baselines = {task: 100 * strongest_baseline(task)[1] if metric == "accuracy" else None for task in labels}
    found: list[Point] = []
    for cell, own in runs:
        measured = sorted((100 * run[metric], run["seed"]) for run in own if metric in run)
        if measured:
            values, of_seeds = zip(*measured, strict=True)
            task, width = cell.task, cell.model.width
            found.append(Point(labels[task], cell.name.line, width, values, baselines[task], widths, of_seeds))
    return found


def require_metric(metric: str, tasks: Iterable[Task]) -> None:
    """Raise unless every task has the metric."""
    for task in tasks:
        if metric not in task.metrics():
            raise unknown_name(f"metric of {task.name}", metric, task.metrics())


def require_names(cells: Sequence[Cell]) -> None:
    """Raise if different cells share a place in table and figure."""
    names: dict[tuple[Task, str, int], Cell] = {}
    for cell in cells:
        other = names.setdefault((cell.task, cell.name.line, cell.model.width), cell)
        require(
            other is cell or other.setting == cell.setting,
            f"two different cells are called '{cell.label}': give the bodies different names, or compare one by one",
        )


def labels_of(tasks: Iterable[Task]) -> dict[Task, str]:
    """Return a label per task: its name and, where tasks share it, the settings in which they differ."""
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
    """Lay out medians, with the range if seeds differ and the number of seeds if some are missing."""
    widths = sorted({cell.model.width for cell in cells})
    labels = labels_of(cell.task for cell in cells)
    at = {(point.task, point.line, point.width): point for point in points}
    count = len(numbered(seeds))
    rows = [
        (
            line if len(labels) == 1 else f"{label}, {line}",
            *(point_in_words(at.get((label, line, width)), count) for width in widths),
        )
        for label, line in dict.fromkeys((labels[cell.task], cell.name.line) for cell in cells)
    ]
    return Table(title, ("width", *map(str, widths)), rows, left=("width",))


def point_in_words(point: Point | None, seeds: int) -> str:
    if point is None:
        return "-"
    least, most = f"{point.values[0]:.1f}", f"{point.values[-1]:.1f}"
    spread = "" if least == most else f" ({least} to {most})"
    count = "" if len(point.values) == seeds else f", {seeds_in_words(len(point.values))}"
    return f"{statistics.median(point.values):.1f}{spread}{count}"
