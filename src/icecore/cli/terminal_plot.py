"""Plots of lines and bands in characters, for a terminal or a pipe."""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

LINE, BAND = "●", "░"
PLAIN = {LINE: "*", BAND: ":"}  # for an encoding without them


@dataclass(frozen=True)
class Plot:
    """One line with its band over the steps."""

    label: str
    steps: Sequence[float]
    least: Sequence[float]
    middle: Sequence[float]
    most: Sequence[float]
    is_log: bool = False
    span: tuple[float, float] | None = None  # of the axis of steps; default: those of the line


def plot_lines(plot: Plot, width: int, height: int) -> list[str]:
    """Return the lines of a plot, no wider than `width`: a label, `height` rows, and the axis of steps."""
    scale = math.log10 if plot.is_log else float
    low, high = scale(min(plot.least)), scale(max(plot.most))
    if low == high:
        low, high = low - 0.5, high + 0.5
    ticks = {row: tick_text(value_at(row, height, low, high), plot.is_log) for row in (0, height // 2, height - 1)}
    margin = max(map(len, ticks.values()))
    columns = max(8, width - margin - 2)
    cells = grid_of(plot, columns, height, lambda value: row_of(scale(value), height, low, high))
    lines = [f"{plot.label}{' (logarithmic)' if plot.is_log else ''}"]
    for row in range(height):
        lines.append(f"{ticks.get(row, ''):>{margin}} {'┤' if row in ticks else '│'}{''.join(cells[row]).rstrip()}")
    first, last = (f"{end:,.0f}" for end in plot.span or (plot.steps[0], plot.steps[-1]))
    between = max(1, columns - len(first) - len(last))
    return [in_this_encoding(line) for line in (*lines, f"{' ' * (margin + 2)}{first}{' ' * between}{last}")]


def grid_of(plot: Plot, columns: int, height: int, row: Callable[[float], int]) -> list[list[str]]:
    """Return the characters; a column between two steps has the values of the nearer one."""
    cells = [[" "] * columns for _ in range(height)]
    begin, end = plot.span or (plot.steps[0], plot.steps[-1])
    width, place = (end - begin) / max(1, columns - 1), 0
    for column in range(columns):
        at = begin + width * column
        if not plot.steps[0] - width / 2 <= at <= plot.steps[-1] + width / 2:
            continue  # nothing is measured here
        while place + 1 < len(plot.steps) and plot.steps[place + 1] - at <= at - plot.steps[place]:
            place += 1
        for filled in range(row(plot.most[place]), row(plot.least[place]) + 1):
            cells[filled][column] = BAND
        cells[row(plot.middle[place])][column] = LINE
    return cells


def row_of(value: float, height: int, low: float, high: float) -> int:
    """Return the row from above of a value."""
    return min(height - 1, max(0, round((high - value) / (high - low) * (height - 1))))


def value_at(row: int, height: int, low: float, high: float) -> float:
    return high - (high - low) * row / (height - 1)


def tick_text(value: float, is_log: bool) -> str:
    return f"{10**value if is_log else value:.3g}"


def in_this_encoding(line: str) -> str:
    """Replace characters that standard output cannot encode."""
    try:
        line.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        for mark, plain in {**PLAIN, "┤": "|", "│": "|"}.items():
            line = line.replace(mark, plain)
    return line
