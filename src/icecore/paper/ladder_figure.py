"""Figure of the ladder: smallest sufficient width, Random beside Normal, a row per rung, ordered by coordinates."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icecore.drawing import BLUE, GREEN, GREY, new_figure
from icecore.paper.evidence import Evidence
from icecore.paper.ladder_grid import KINDS
from icecore.paper.ladder_steps import steps_of
from icecore.paper.ladder_table import COORDINATES, coordinate
from icecore.reporting.thresholds import State

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS = 34  # of a panel; more rungs take a second one
COLOURS = {"Random": BLUE, "Normal": GREEN}
MARKERS = {"Random": "o", "Normal": "^"}
ASIDE = {"Random": -0.17, "Normal": 0.17}  # of the row's middle
NOT_RUN = -1  # place on the axis of widths
HEADINGS = ("sens.", "rounds", "symb.")  # of COORDINATES


@dataclass(frozen=True)
class Mark:
    """One rung and kind. `values` are the seeds' own smallest sufficient widths, of those that have one."""

    rung: str
    kind: str
    state: State
    width: int | None
    values: tuple[int, ...]
    seeds: int
    widest_run: int | None
    widths: tuple[int, ...]  # of the whole grid
    coordinates: tuple[str, ...]  # sensitivity, rounds, symbols
    shown: str

    @property
    def place(self) -> float:
        """Return its place on the axis: widths by rank, then a column for what no width reaches."""
        if self.state == "not reached":
            return len(self.widths)
        if self.width is not None:
            return self.widths.index(self.width)
        return self.beyond

    @property
    def span(self) -> tuple[float, float] | None:
        """Return the range over seeds; it is open beyond the widest that was run if a seed needs more."""
        if self.width is None or not self.values:
            return None
        places = [float(self.widths.index(width)) for width in self.values]
        return min(places), self.beyond if self.is_open else max(places)

    @property
    def is_open(self) -> bool:
        return len(self.values) < self.seeds

    @property
    def beyond(self) -> float:
        """Return the place beyond the widest width that was run."""
        if self.widest_run is None:
            return NOT_RUN
        rank = self.widths.index(self.widest_run)
        return rank + (1.0 if rank == len(self.widths) - 1 else 0.5)


def marks(evidence: Evidence) -> list[Mark]:
    """Return a mark per rung and kind, in the order of the coordinates."""
    found = []
    for step in steps_of(evidence):
        for kind in KINDS:
            threshold = step.thresholds[kind]
            own = tuple(sorted(width for width in threshold.by_seed.values() if width is not None))
            found.append(
                Mark(
                    str(step.rung),
                    kind,
                    threshold.state,
                    threshold.width,
                    own,
                    threshold.seeds,
                    max(threshold.run_widths, default=None),
                    threshold.widths,
                    tuple(coordinate(step, name) for name in COORDINATES),
                    str(threshold),
                )
            )
    return found


def draw_ladder(points: Sequence[Mark], title: str) -> "Figure":
    """Draw a row per rung: the median, the range over seeds, and what was not reached or not run."""
    rungs = list(dict.fromkeys(point.rung for point in points))
    count = math.ceil(len(rungs) / ROWS)
    rows = math.ceil(len(rungs) / count)
    figure = new_figure(6.2 * count + 0.4, max(2.6, 0.21 * rows + 1.5))
    panels = figure.subplots(1, count, squeeze=False)[0]
    for index, panel in enumerate(panels):
        here = rungs[index * rows : (index + 1) * rows]
        draw_panel(panel, here, [point for point in points if point.rung in here])
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    figure.legend(handles=legend(panels[0]), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def draw_panel(panel: Any, rungs: Sequence[str], points: Sequence[Mark]) -> None:
    widths = points[0].widths
    row_of = {rung: row for row, rung in enumerate(rungs)}
    for point in points:
        colour, row = COLOURS[point.kind], row_of[point.rung] + ASIDE[point.kind]
        if point.span is not None:
            panel.plot(point.span, (row, row), color=colour, linewidth=1.4, alpha=0.5, solid_capstyle="butt")
            if point.is_open:
                panel.plot(point.span[1], row, marker=">", color=colour, markersize=3, alpha=0.5)
        panel.plot(point.place, row, **style_of(point.kind, point.state))
    for row in range(0, len(rungs), 2):
        panel.axhspan(row - 0.5, row + 0.5, color=GREY, alpha=0.07, linewidth=0)
    panel.axvspan(len(widths) - 0.5, len(widths) + 0.5, color=GREY, alpha=0.15, linewidth=0)
    panel.set_xlim(NOT_RUN - 0.5, len(widths) + 0.5)
    panel.set_ylim(len(rungs) - 0.5, -1.3)  # with a row of headings
    labels = ["not run", *map(str, widths), f"> {widths[-1]}"]
    panel.set_xticks(range(NOT_RUN, len(widths) + 1), labels, fontsize=7)
    panel.set_yticks(range(len(rungs)), rungs, fontsize=7)
    panel.set_xlabel("width", fontsize=8)
    panel.grid(axis="x", alpha=0.25)
    panel.tick_params(length=0)
    panel.spines[["top", "right", "left"]].set_visible(False)
    beside = panel.secondary_yaxis("right")
    coordinates = {point.rung: point.coordinates for point in points}
    texts = [HEADINGS, *(coordinates[rung] for rung in rungs)]
    beside.set_yticks([-0.9, *range(len(rungs))], list(map(columns, texts)), fontsize=7, family="monospace")
    beside.tick_params(length=0)
    beside.spines["right"].set_visible(False)


def columns(texts: Sequence[str]) -> str:
    return " ".join(f"{text or '?':>6}" for text in texts)


def style_of(kind: str, state: State) -> dict[str, Any]:
    """Return a marker: filled where a width suffices, else hollow; a cross where nothing was run."""
    colour, is_reached = COLOURS[kind], state == "reached"
    shape = {"not run": "x", "not finished": ">"}.get(state, MARKERS[kind])
    fill = colour if is_reached else "white"
    return {"marker": shape, "color": colour, "markerfacecolor": fill, "markersize": 5, "linestyle": "none"}


def legend(panel: Any) -> list[Any]:
    entries: list[tuple[str, dict[str, Any]]] = [(kind, style_of(kind, "reached")) for kind in KINDS]
    entries += [
        ("seeds' own widths", {"color": GREY, "linewidth": 1.4, "alpha": 0.5}),
        ("no width suffices", {**style_of("Random", "not reached"), "color": GREY}),
        ("wider not run yet", {**style_of("Random", "not finished"), "color": GREY}),
        ("not run", {**style_of("Random", "not run"), "color": GREY}),
    ]
    return [panel.plot([], [], label=label, **style)[0] for label, style in entries]
