"""Tables as pictures: a panel of coloured cells, each with its number."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icecore.drawing import BLUE, GREY, LIGHT_GREY, ORANGE, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EMPTY = "#eeeeee"  # a cell without a value
DARK = 0.5  # text is white on colours of less luminance


@dataclass(frozen=True)
class HeatCell:
    """One cell: its place, and one value per seed; without values it shows its text alone."""

    panel: str
    row: str
    column: str
    values: tuple[float, ...]
    text: str = ""  # instead of the median


def draw_heat(
    cells: Sequence[HeatCell], title: str, legend: str, most: float = 1.0, digits: int = 2, diverges: bool = False
) -> "Figure":
    """Draw a panel per name, coloured from 0, white or, if it diverges, orange, to `most`, blue."""
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    panels = list(dict.fromkeys(cell.panel for cell in cells))
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    sizes = [(len(rows_of(cells, panel)), len(columns_of(cells, panel))) for panel in panels]
    tallest, widest = max(size[0] for size in sizes), max(size[1] for size in sizes)
    labels = max(len(cell.row) for cell in cells)
    figure = new_figure(columns * (0.62 * widest + 0.07 * labels + 0.3), lines * (0.3 * tallest + 1.0) + 0.5)
    axes = figure.subplots(lines, columns, squeeze=False).flatten()
    colours = LinearSegmentedColormap.from_list("icecore", [*([ORANGE] if diverges else []), "#ffffff", BLUE])
    norm = Normalize(0.0, most, clip=True)
    for axis, panel in zip(axes, panels, strict=False):
        draw_panel(axis, [cell for cell in cells if cell.panel == panel], colours, norm, digits)
        axis.set_title(panel, fontsize=9, loc="left")
    for axis in axes[len(panels) :]:
        axis.remove()
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    figure.supxlabel(legend, fontsize=8, color=GREY, x=0.01, ha="left")
    return figure


def rows_of(cells: Sequence[HeatCell], panel: str) -> list[str]:
    return list(dict.fromkeys(cell.row for cell in cells if cell.panel == panel))


def columns_of(cells: Sequence[HeatCell], panel: str) -> list[str]:
    return list(dict.fromkeys(cell.column for cell in cells if cell.panel == panel))


def draw_panel(axis: Any, cells: Sequence[HeatCell], colours: Any, norm: Any, digits: int) -> None:
    from matplotlib.patches import Rectangle

    rows, columns = rows_of(cells, cells[0].panel), columns_of(cells, cells[0].panel)
    for cell in cells:
        place = columns.index(cell.column), rows.index(cell.row)
        shade = norm(statistics.median(cell.values)) if cell.values else None
        axis.add_patch(Rectangle(place, 1, 1, facecolor=EMPTY if shade is None else colours(shade), edgecolor="white"))
        shown = cell.text or (f"{statistics.median(cell.values):.{digits}f}" if cell.values else "")
        colour = GREY if shade is None else "white" if luminance(colours(shade)) < DARK else "black"
        axis.text(place[0] + 0.5, place[1] + 0.5, shown, ha="center", va="center", fontsize=7, color=colour)
    axis.set_xlim(0, len(columns))
    axis.set_ylim(len(rows), 0)
    axis.set_xticks([index + 0.5 for index in range(len(columns))], columns, fontsize=7, rotation=30, ha="right")
    axis.set_yticks([index + 0.5 for index in range(len(rows))], rows, fontsize=7)
    axis.tick_params(length=0)
    axis.spines[:].set_color(LIGHT_GREY)


def luminance(colour: Sequence[float]) -> float:
    """Return how light a colour is, from 0 to 1."""
    red, green, blue, *_ = colour
    return 0.299 * red + 0.587 * green + 0.114 * blue
