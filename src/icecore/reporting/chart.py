"""Charts as data: the page draws them, and a reader explores them. Figures in files are drawn by matplotlib."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from icecore.drawing import BLUE, style_of

Scale = Literal["linear", "log", "category"]
Place = float | str


@dataclass(frozen=True)
class Axis:
    """An axis: its label, scale and, if fixed, its range."""

    label: str
    scale: Scale = "linear"
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Dot:
    """One place of a line, with a value per run, and the key of each if it is recorded."""

    x: Place
    values: tuple[float, ...]
    runs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """A line of medians over seeds."""

    name: str
    dots: tuple[Dot, ...]
    panel: str = ""
    colour: str = BLUE
    marker: str = "o"
    linestyle: str = "-"  # as in matplotlib


@dataclass(frozen=True)
class Rule:
    """A baseline: a value per place, or one for all."""

    name: str
    panel: str
    places: tuple[tuple[Place, float], ...] = ()
    value: float | None = None
    line: str = ""  # for bars: the line it belongs to


@dataclass(frozen=True)
class Chart:
    """Lines, bars or bands over seeds, in panels."""

    title: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    rules: tuple[Rule, ...] = ()
    kind: Literal["line", "bar", "band"] = "line"


@dataclass(frozen=True)
class Maps:
    """Square maps from each word to each earlier one, such as attention, by the name of their panel."""

    title: str
    words: tuple[str, ...]
    panels: dict[str, Sequence[Sequence[float]]] = field(default_factory=dict)


def rules_of(baselines: Iterable[tuple[str, str, float | None]]) -> tuple[Rule, ...]:
    """Return a rule per (panel, name, value) that has a value; equal ones once."""
    found = {(panel, name): value for panel, name, value in baselines if value is not None}
    return tuple(
        Rule(name, panel, value=value)
        for (panel, name), value in found.items()
        if value is not None and math.isfinite(value)
    )


def line_of(name: str, kind: str, body: int, dots: Iterable[Dot], panel: str = "") -> Line:
    """Return a line of a trainable set, such as Random, in the style of figures: the hue is of the body's index."""
    style = style_of(kind, body)
    return Line(name, tuple(dots), panel, style["color"], style["marker"], style["linestyle"])
