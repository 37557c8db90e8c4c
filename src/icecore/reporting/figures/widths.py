"""Accuracy against width: of the paper's tasks, and of a comparison of one's own."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    finished,
    new_figure,
    ticks_at,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = {
    "Random": {"color": BLUE, "marker": "o", "linestyle": "-"},
    "Normal": {"color": GREEN, "marker": "^", "linestyle": "--"},
    "Random, matched": {"color": ORANGE, "marker": "s", "linestyle": "-."},
    "Random, lr x5": {"color": SKY, "marker": "D", "linestyle": ":"},
    "Random, matched, lr x5": {"color": PURPLE, "marker": "v", "linestyle": ":"},
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
    baseline: float | None
    widths: tuple[int, ...]  # of the whole figure, recorded or not
    seeds: tuple[int, ...] = ()  # whose values they are, in their order


def styles_of(points: Sequence[Point]) -> dict[str, dict[str, str]]:
    """Return the style of each line: known ones first; others get one by one what is left."""
    unknown = [line for line in dict.fromkeys(point.line for point in points) if line not in STYLES]
    left = zip(itertools.cycle(OTHERS), itertools.cycle("p<>*hd"), itertools.cycle(("-.", "--", ":")), strict=False)
    others = {
        line: {"color": color, "marker": marker, "linestyle": dashes}
        for line, (color, marker, dashes) in zip(unknown, left, strict=False)
    }
    return STYLES | others


def draw_widths(points: Sequence[Point], title: str) -> "Figure":
    """Draw a panel per task: medians as lines between neighbouring widths, a dash for each seed, the baseline."""
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
        if here[0].baseline is not None:
            panel.axhline(here[0].baseline, color=GREY, linewidth=0.9, linestyle=DOTS, label="baseline")
        ticks_at(panel, widths)
        panel.set_xlim(widths[0] / 1.25, widths[-1] * 1.25)
        panel.set_ylim(0, 104)
        panel.set_title(task, fontsize=9, loc="left")
    for panel in panels[len(tasks) :]:
        panel.remove()
    for panel in panels[max(0, len(tasks) - columns) : len(tasks)]:
        panel.set_xlabel("width", fontsize=8)
    figure.supylabel("test accuracy, %", fontsize=9)
    return finished(figure, title)
