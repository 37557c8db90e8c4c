"""Figures from stored records: accuracy against width."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from icecore.errors import InputError
from icecore.reporting.claim import seeds_by_setting
from icecore.store import Records
from icecore.sweeps.cells import Cell
from icecore.sweeps.paper import ENTRIES, SCALES

# Okabe and Ito's colours, which colour-blind readers tell apart; each line has a marker and a dash of its own as well.
STYLES = {
    "Random": ("#0072B2", "o", "-"),
    "Normal": ("#009E73", "^", "--"),
    "Random, matched": ("#D55E00", "s", "-."),
    "Random, lr 0.005": ("#56B4E9", "D", ":"),
    "Random, matched, lr 0.005": ("#CC79A7", "v", ":"),
}
WIDTH_FIGURES = {"fig7": ("fig7",), "init": ("fig7", "init")}  # a figure, and the entries whose cells it shows


@dataclass(frozen=True)
class Point:
    """One width of one line of one task: accuracies in %."""

    task: str
    line: str
    width: int
    values: tuple[float, ...]
    floor: float


def points_of(name: str, scale: str, preset: str, records: Records) -> list[Point]:
    """What is recorded of a figure over widths."""
    by_setting = seeds_by_setting(records)
    found: dict[str, Point] = {}
    for entry in WIDTH_FIGURES[name]:
        make = ENTRIES[entry].cells
        assert make is not None
        for cell in make(SCALES[scale], preset):
            runs = by_setting.get(cell.setting)
            line = line_of(cell)
            if runs and (name != "init" or line != "Normal"):
                values = tuple(sorted(100 * run["accuracy"] for run in runs))
                floor = 100 * max(runs[0]["floors"].values())
                found[cell.setting] = Point(cell.task.name, line, cell.model.width, values, floor)
    if not found:
        raise InputError(f"nothing of {name} is recorded in {records.path}; icecore reproduce {name} --scale {scale}")
    return list(found.values())


def line_of(cell: Cell) -> str:
    """What a cell's label says beside task and width, and what is not the scripts' own."""
    _, column, *rest = cell.label.split(", ")
    return ", ".join([column.split()[0], *(part for part in rest if part != "released")])


def draw_widths(points: Sequence[Point], title: str, paths: Sequence[Path]) -> None:
    """A panel a task: medians as lines, all seeds between the ends of the bars, the floor dotted."""
    from matplotlib.figure import Figure

    tasks = list(dict.fromkeys(point.task for point in points))
    columns = min(2, len(tasks))
    rows = -(-len(tasks) // columns)
    figure = Figure(figsize=(3.6 * columns, 2.6 * rows + 0.6), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for panel, task in zip(panels, tasks, strict=False):
        here = [point for point in points if point.task == task]
        for index, (line, (colour, marker, dash)) in enumerate(STYLES.items()):
            along = sorted((point for point in here if point.line == line), key=lambda point: point.width)
            if not along:
                continue
            medians = [statistics.median(point.values) for point in along]
            panel.errorbar(
                [point.width * 1.03 ** (index - 1) for point in along],  # side by side, so that none hides another
                medians,
                yerr=[
                    [middle - point.values[0] for point, middle in zip(along, medians, strict=True)],
                    [point.values[-1] - middle for point, middle in zip(along, medians, strict=True)],
                ],
                color=colour,
                marker=marker,
                linestyle=dash,
                markersize=4,
                linewidth=1.3,
                capsize=2,
                label=line,
                clip_on=False,
            )
        panel.axhline(here[0].floor, color="#777777", linewidth=0.9, linestyle=(0, (1, 2)), label="floor")
        panel.set_xscale("log", base=2)
        widths = sorted({point.width for point in points})
        panel.set_xticks(widths, [str(width) for width in widths], fontsize=7)
        panel.set_ylim(0, 104)
        panel.set_title(task, fontsize=9, loc="left")
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=7)
    for panel in panels[len(tasks) :]:
        panel.set_visible(False)
    for panel in panels[max(0, len(tasks) - columns) : len(tasks)]:
        panel.set_xlabel("width", fontsize=8)
    figure.supylabel("test accuracy, %", fontsize=9)
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    handles = {
        label: handle for panel in panels for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=200)
