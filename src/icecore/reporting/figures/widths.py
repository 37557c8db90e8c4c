"""Figure 7, accuracy against width, and the same with other initializations."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from icecore.models import Transformer
from icecore.reporting.claim import seeds_by_setting
from icecore.reporting.figures.drawing import (
    BLUE,
    DOTS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    YELLOW,
    draw_line,
    new_figure,
    save,
    ticks_at,
)
from icecore.store import Records
from icecore.sweeps.cells import Cell
from icecore.sweeps.entries import ENTRIES
from icecore.training.presets import source_of

STYLES = {
    "Random": {"color": BLUE, "marker": "o", "linestyle": "-"},
    "Normal": {"color": GREEN, "marker": "^", "linestyle": "--"},
    "Random, matched": {"color": ORANGE, "marker": "s", "linestyle": "-."},
    "Random, lr 0.005": {"color": SKY, "marker": "D", "linestyle": ":"},
    "Random, matched, lr 0.005": {"color": PURPLE, "marker": "v", "linestyle": ":"},
    "U only": {"color": YELLOW, "marker": "X", "linestyle": ":"},
}
OTHERS = (ORANGE, PURPLE, SKY, GREY)


@dataclass(frozen=True)
class Point:
    """One width of one line of one task: accuracies in %, the least first."""

    task: str
    line: str
    width: int
    values: tuple[float, ...]
    floor: float | None
    widths: tuple[int, ...]  # of the whole figure, recorded or not
    seeds: tuple[int, ...] = ()  # whose values they are, in their order


def all_widths_of(scale: str, preset: str, records: Records) -> list[Point]:
    """What is recorded of Figure 7."""
    return list(points_of(("fig7",), lambda cell: cell.name.kind, scale, preset, records).values())


def initializations_of(scale: str, preset: str, records: Records) -> list[Point]:
    """What is recorded of Random bodies, as the scripts initialize them and with the gain of width 1024."""
    points = points_of(("fig7", "init"), line_of, scale, preset, records)
    return [point for point in points.values() if not point.line.startswith("Normal")]


def points_of(
    entries: Sequence[str], name_of: Callable[[Cell], str], scale: str, preset: str, records: Records
) -> dict[str, Point]:
    """By setting, what is recorded of these entries' cells."""
    by_setting = seeds_by_setting(records)
    found: dict[str, Point] = {}
    for entry in entries:
        cells = ENTRIES[entry].at(scale, preset)
        widths = tuple(sorted({cell.model.width for cell in cells}))
        for cell in cells:
            runs = by_setting.get(cell.setting)
            if runs:
                values = tuple(sorted(100 * run["accuracy"] for run in runs))
                floor = 100 * max(runs[0]["floors"].values(), default=0.0)
                found[cell.setting] = Point(cell.task.name, name_of(cell), cell.model.width, values, floor, widths)
    return found


def line_of(cell: Cell) -> str:
    """With the initialization if it is not the preset's own."""
    assert isinstance(cell.model, Transformer)
    is_usual = cell.model.init == source_of(cell.preset)
    return replace(cell.name, more="" if is_usual else cell.model.init).line


def styles_of(points: Sequence[Point]) -> dict[str, dict[str, str]]:
    """By line, those that have a style of their own first; others get one by one what is left."""
    unknown = [line for line in dict.fromkeys(point.line for point in points) if line not in STYLES]
    left = zip(itertools.cycle(OTHERS), itertools.cycle("p<>*hd"), itertools.cycle(("-.", "--", ":")), strict=False)
    others = {
        line: {"color": color, "marker": marker, "linestyle": dashes}
        for line, (color, marker, dashes) in zip(unknown, left, strict=False)
    }
    return STYLES | others


def draw_widths(points: Sequence[Point], title: str, paths: Sequence[Path]) -> None:
    """A panel a task: medians as lines between neighbouring widths, a dash for each seed, the floor."""
    tasks = list(dict.fromkeys(point.task for point in points))
    widths = sorted({width for point in points for width in point.widths})
    columns = min(2, len(tasks))
    rows = -(-len(tasks) // columns)
    figure = new_figure(max(5.4, 3.6 * columns), 2.6 * rows + 0.6)
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for panel, task in zip(panels, tasks, strict=False):
        here = [point for point in points if point.task == task]
        drawn = [(line, style) for line, style in styles_of(points).items() if any(each.line == line for each in here)]
        for index, (line, style) in enumerate(drawn):
            along = {point.width: point for point in here if point.line == line}
            aside = 1.03 ** (index - (len(drawn) - 1) / 2)  # so that none hides another
            places = [width * aside for width in widths]
            draw_line(panel, places, [along.get(width) for width in widths], label=line, clip_on=False, **style)
        if here[0].floor is not None:
            panel.axhline(here[0].floor, color=GREY, linewidth=0.9, linestyle=DOTS, label="floor")
        ticks_at(panel, widths)
        panel.set_xlim(widths[0] / 1.25, widths[-1] * 1.25)
        panel.set_ylim(0, 104)
        panel.set_title(task, fontsize=9, loc="left")
    for panel in panels[len(tasks) :]:
        panel.remove()
    for panel in panels[max(0, len(tasks) - columns) : len(tasks)]:
        panel.set_xlabel("width", fontsize=8)
    figure.supylabel("test accuracy, %", fontsize=9)
    save(figure, title, paths)
