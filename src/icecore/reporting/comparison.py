"""What a comparison of one's own gave: a row a line of its figure, a column a width."""

import statistics
from collections.abc import Sequence

from icecore.reporting.claim import seeds_in_words
from icecore.reporting.figures.widths import Point
from icecore.store import Records
from icecore.sweeps.cells import Cell
from icecore.sweeps.comparison import recorded


def points_of(
    cells: Sequence[Cell], seeds: int, records: Records, device: str = "auto", precision: str = "auto"
) -> list[Point]:
    """What is recorded of the cells, of the first so many seeds; accuracies in %."""
    widths = tuple(sorted({cell.model.width for cell in cells}))
    floors = {task: 100 * max(task.floors().values(), default=0.0) for task in {cell.task for cell in cells}}
    found: list[Point] = []
    for cell, runs in recorded(cells, seeds, records, device, precision):
        if runs:
            values = tuple(sorted(100 * run["accuracy"] for run in runs))
            found.append(Point(cell.task.name, cell.name.line, cell.model.width, values, floors[cell.task], widths))
    return found


def table_of(
    cells: Sequence[Cell], points: Sequence[Point], seeds: int
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headings and rows: medians, with the least and the most of seeds that differ, and how many if not all."""
    widths = sorted({cell.model.width for cell in cells})
    at = {(point.line, point.width): point for point in points}
    rows = [
        (line, *(in_words(at.get((line, width)), seeds) for width in widths))
        for line in dict.fromkeys(cell.name.line for cell in cells)
    ]
    return ("width", *map(str, widths)), rows


def in_words(point: Point | None, seeds: int) -> str:
    if point is None:
        return "-"
    least, most = f"{point.values[0]:.1f}", f"{point.values[-1]:.1f}"
    spread = "" if least == most else f" ({least} to {most})"
    count = "" if len(point.values) == seeds else f", {seeds_in_words(len(point.values))}"
    return f"{statistics.median(point.values):.1f}{spread}{count}"
