"""Figures of a search for the smallest sufficient width: accuracy against width, and difficulty against width."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icecore.drawing import DASHES, GREY, HUES, TRAINED_STYLES, finished, new_figure
from icecore.reporting.figures.widths import Point, draw_widths

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Mark:
    """A kind at one difficulty: its smallest sufficient width, and each seed's own, None where none is known."""

    value: str  # of the difficulty
    kind: str
    width: int | None
    lower_bound: int | None
    of_seeds: tuple[int | None, ...]


def draw_accuracies(points: Sequence[Point], target: float, title: str) -> "Figure":
    """Draw test accuracy against width, with the baseline and the target."""
    figure = draw_widths(points, title)
    (panel,) = figure.axes
    panel.axhline(target, color=GREY, linewidth=0.9, linestyle=DASHES)
    panel.annotate(
        f"target {target:g}",
        (1.0, target),
        xycoords=("axes fraction", "data"),
        xytext=(3, 0),
        textcoords="offset points",
        fontsize=7,
        color=GREY,
        va="center",
    )
    return figure


def draw_over(marks: Sequence[Mark], setting: str, widths: Sequence[int], title: str) -> "Figure":
    """Draw the smallest sufficient width against the difficulty; a hollow marker is a width that missed the target."""
    values = list(dict.fromkeys(mark.value for mark in marks))
    kinds = list(dict.fromkeys(mark.kind for mark in marks))
    figure = new_figure(max(5.4, 0.6 * len(values) + 2), 3.4)
    panel = figure.subplots()
    for index, kind in enumerate(kinds):
        own = {mark.value: mark for mark in marks if mark.kind == kind}
        style: dict[str, Any] = {"color": HUES[index % len(HUES)], **TRAINED_STYLES[kind]}
        aside = 0.1 * (index - (len(kinds) - 1) / 2)
        places = [place + aside for place in range(len(values))]
        known = [own[value].width for value in values]
        panel.plot(places, [float("nan") if width is None else width for width in known], label=kind, **style)
        for place, value in zip(places, values, strict=True):
            mark = own[value]
            if mark.width is None and mark.lower_bound is not None:
                panel.plot(place, mark.lower_bound, **{**style, "markerfacecolor": "white", "linestyle": "none"})
                panel.annotate(
                    ">",
                    (place, mark.lower_bound),
                    xytext=(-6, 4),
                    textcoords="offset points",
                    fontsize=8,
                    color=style["color"],
                )
            seeds = sorted(width for width in mark.of_seeds if width is not None)
            if mark.width is not None and seeds:
                panel.plot([place, place], [seeds[0], seeds[-1]], color=style["color"], linewidth=3, alpha=0.3)
    if any(mark.width is None for mark in marks):
        panel.plot([], [], "o", color=GREY, markerfacecolor="white", label="hollow: more than this width")
    panel.set_yscale("log", base=2)
    panel.set_yticks(widths, [str(width) for width in widths])
    panel.set_ylim(widths[0] / 1.4, widths[-1] * 1.4)
    panel.minorticks_off()
    panel.set_xticks(range(len(values)), values)
    panel.set_xlim(-0.5, len(values) - 0.5)
    panel.set_xlabel(setting, fontsize=8)
    panel.set_ylabel("smallest sufficient width", fontsize=8)
    return finished(figure, title)
