"""Colours, lines of medians, and finishing and writing of figures."""

import functools
import io
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from icecore.errors import printable, require
from icecore.store.files import replacing, require_writable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, safe for colour-blind readers; lines also differ in dashes and markers.
BLUE, GREEN, ORANGE, SKY, PURPLE, YELLOW = "#0072B2", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#E69F00"
GREY, LIGHT_GREY = "#777777", "#999999"
# Hue shows the body, line and marker the trainable set.
HUES = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, GREY)
TRAINED_STYLES = {
    "Random": {"marker": "o", "linestyle": "-"},
    "Normal": {"marker": "^", "linestyle": "--"},
    "U only": {"marker": "X", "linestyle": ":"},
    "E only": {"marker": "s", "linestyle": "-."},
    "E_token & U": {"marker": "D", "linestyle": "-."},
}
DOTS, DASHES = (0, (1, 2)), (0, (5, 3))
SCREEN_DPI = 110
LADDER = "seeds"  # marks the dashes of single seeds
INCHES_PER_LETTER, INCHES_PER_HANDLE = 0.062, 0.6  # of a legend in 8 points


class Seeds(Protocol):
    """A point of a line: one value per seed."""

    @property
    def values(self) -> tuple[float, ...]: ...


def new_figure(width: float, height: float) -> "Figure":
    return figure_type()(figsize=(width, height), layout="constrained")


@functools.cache
def figure_type() -> "type[Figure]":
    """Return matplotlib's figure that notebooks show as a picture: without pyplot, they show only its size."""
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            return as_png(self)

    return ShownFigure


def draw_line(
    panel: Any, places: Sequence[float], along: Sequence[Seeds | None], clip_on: bool = True, **style: Any
) -> None:
    """Draw medians as a line, and every seed as a dash. A missing point breaks the line."""
    values = [(math.nan,) if point is None else point.values for point in along]
    medians = [statistics.median(each) for each in values]
    panel.plot(places, medians, markersize=4, linewidth=1.3, clip_on=clip_on, **style)
    for place, each in zip(places, values, strict=True):
        if len(each) > 1:
            ladder = {"marker": "_", "markersize": 6, "markeredgewidth": 0.8, "linewidth": 0.8}
            panel.plot(
                [place] * len(each), each, color=style["color"], clip_on=clip_on, zorder=1.9, gid=LADDER, **ladder
            )


def style_of(kind: str, body: int) -> dict[str, Any]:
    """Return the style of a trainable set, such as Random, for the body of this index."""
    return {"color": HUES[body % len(HUES)], **TRAINED_STYLES[kind]}


def ticks_at(panel: Any, widths: Sequence[int]) -> None:
    """Make a logarithmic axis of widths, each labelled."""
    panel.set_xscale("log", base=2)
    panel.set_xticks(widths, [str(width) for width in widths])
    panel.minorticks_off()


def label_counts(panel: Any, most: int) -> None:
    """Label a logarithmic axis of counts 1, 2, 5, 10, 20, ..."""
    counts = [digit * 10**power for power in range(7) for digit in (1, 2, 5) if digit * 10**power <= most]
    panel.set_xscale("log")
    panel.set_xticks(counts, [f"{count:,}" for count in counts], fontsize=7)
    panel.minorticks_off()


def finish(panel: Any) -> None:
    panel.grid(axis="y", alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)


def with_legend(figure: "Figure", title: str) -> "Figure":
    """Add a title, and the first panel's legend below all panels."""
    figure.suptitle(title, fontsize=9, x=0.01, ha="left")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def finished(figure: "Figure", title: str) -> "Figure":
    """Finish the panels, with one legend for all of them."""
    handles = {}
    for panel in figure.axes:
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=7)
        handles |= {label: handle for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    if has_seeds(figure):
        dash: dict[str, Any] = {"color": GREY, "linestyle": "none", "marker": "_"}
        handles |= {"dash: one seed": figure.axes[0].plot([], [], **dash)[0]}
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    columns = columns_of(figure.get_figwidth(), handles)
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=columns, frameon=False, fontsize=8
    )
    return figure


def columns_of(inches: float, labels: Iterable[str]) -> int:
    """Return the columns of a legend, at most three, in which the longest label is whole."""
    longest = max(map(len, labels), default=0)
    return max(1, min(3, int(inches / (INCHES_PER_LETTER * longest + INCHES_PER_HANDLE))))


def has_seeds(figure: "Figure") -> bool:
    """Tell whether the figure shows single seeds."""
    return any(line.get_gid() == LADDER for panel in figure.axes for line in panel.lines)


def require_drawable(paths: Sequence[Path]) -> None:
    """Raise if figures cannot be written there, before the work starts."""
    from matplotlib.backend_bases import FigureCanvasBase

    known = FigureCanvasBase.get_supported_filetypes()
    for path in paths:
        require(
            path.suffix[1:].lower() in known, f"cannot draw {path}: it must end in .png, .pdf or .svg, or be a folder"
        )
        require_writable(path)


def write(figure: "Figure", paths: Sequence[Path]) -> None:
    """Write a figure to each path. Its texts are shown as they are: none is read as a formula."""
    show_plainly(figure)
    for path in paths:
        with replacing(path) as temporary:
            figure.savefig(temporary, dpi=200, format=path.suffix[1:].lower())


def as_png(figure: "Figure") -> bytes:
    """Return a figure as a picture for a screen."""
    show_plainly(figure)
    stream = io.BytesIO()
    figure.savefig(stream, dpi=SCREEN_DPI, format="png")
    return stream.getvalue()


def show_plainly(figure: "Figure") -> None:
    """Show dollar signs and control characters in names as text. Labels of ticks are set again when they are drawn."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_text(plain(text.get_text()))


def plain(text: str) -> str:
    """Return a text that matplotlib shows as it is."""
    return printable(text).replace("\\$", "$").replace("$", "\\$")
