"""Accuracy against width, for the paper's tasks and for a user's comparison."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from icecore.drawing import DOTS, GREY, HUES, TRAINED_STYLES, draw_line, finished, new_figure, ticks_at
from icecore.reporting.chart import Axis, Chart, Dot, Line, rules_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OTHER_TRAINED = ("p", "<", ">", "*", "h", "d")  # markers of other trainable sets


@dataclass(frozen=True)
class Point:
    """One width of one line of one task: accuracies in %, one per run."""

    task: str
    line: str
    width: int
    values: tuple[float, ...]
    baseline: float | None
    widths: tuple[int, ...]  # all widths of the figure, recorded or not
    seeds: tuple[int, ...] = ()  # of the values, in their order
    runs: tuple[str, ...] = ()  # keys of their runs, if they are recorded


def styles_of(points: Sequence[Point]) -> dict[str, dict[str, str]]:
    """Return the style of each line, named "Random, gru": a hue per body, a line and marker per trainable set.

    With more bodies than hues, the others are dotted and have hollow markers.
    """
    lines = list(dict.fromkeys(point.line for point in points))
    parts = {line: line.partition(", ") for line in lines}
    bodies = list(dict.fromkeys(body for _, _, body in parts.values()))
    hues = dict(zip(bodies, itertools.cycle(HUES), strict=False))
    unknown = dict.fromkeys(what for what, _, _ in parts.values() if what not in TRAINED_STYLES)
    others = dict(zip(unknown, itertools.cycle(OTHER_TRAINED), strict=False))
    found = {}
    for line, (what, _, body) in parts.items():
        style = TRAINED_STYLES.get(what) or {"marker": others[what], "linestyle": "-."}
        again = {"linestyle": ":", "markerfacecolor": "white"} if bodies.index(body) >= len(HUES) else {}
        found[line] = {"color": hues[body], **style, **again}
    return found


def draw_widths(points: Sequence[Point], title: str, along: str = "width") -> "Figure":
    """Draw a panel per task: medians as lines between neighbouring widths, a dash per seed, the baseline.

    `along` names the axis, if it is another size.
    """
    tasks = list(dict.fromkeys(point.task for point in points))
    widths = sorted({width for point in points for width in point.widths})
    columns = min(2, len(tasks))
    rows = -(-len(tasks) // columns)
    figure = new_figure(max(5.4, 3.6 * columns), 2.6 * rows + 0.6)
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    styles = styles_of(points)
    for panel, task in zip(panels, tasks, strict=False):
        here = [point for point in points if point.task == task]
        own = {point.line for point in here}
        drawn = [(line, style) for line, style in styles.items() if line in own]
        for index, (line, style) in enumerate(drawn):
            by_width = {point.width: point for point in here if point.line == line}
            aside = 1.03 ** (index - (len(drawn) - 1) / 2)  # shifted, so that no line hides another
            places = [width * aside for width in widths]
            draw_line(panel, places, [by_width.get(width) for width in widths], label=line, clip_on=False, **style)
        if here[0].baseline is not None:
            panel.axhline(here[0].baseline, color=GREY, linewidth=0.9, linestyle=DOTS, label="baseline")
        ticks_at(panel, widths)
        panel.set_xlim(widths[0] / 1.25, widths[-1] * 1.25)
        panel.set_ylim(0, 104)
        panel.set_title(task, fontsize=9, loc="left")
    for panel in panels[len(tasks) :]:
        panel.remove()
    for panel in panels[max(0, len(tasks) - columns) : len(tasks)]:
        panel.set_xlabel(along, fontsize=8)
    figure.supylabel("test accuracy, %", fontsize=9)
    return finished(figure, title)


def chart_widths(points: Sequence[Point], title: str, along: str = "width") -> Chart:
    """Chart the same: a panel per task, a line per body and trainable set."""
    styles, lines = styles_of(points), []
    for task, name in dict.fromkeys((point.task, point.line) for point in points):
        own = sorted((point for point in points if (point.task, point.line) == (task, name)), key=lambda one: one.width)
        style = styles[name]
        dots = tuple(Dot(point.width, point.values, point.runs) for point in own)
        lines.append(Line(name, dots, task, style["color"], style["marker"], style["linestyle"]))
    rules = rules_of((point.task, "baseline", point.baseline) for point in points)
    return Chart(title, Axis(along, "log"), Axis("test accuracy, %", least=0, most=100), tuple(lines), rules)
