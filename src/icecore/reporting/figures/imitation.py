"""Figure 6: how far students are from what they imitate."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from icecore.reporting.claim import seeds_by_setting
from icecore.reporting.figures.drawing import (
    COLOURS,
    DASHES,
    DOTS,
    GREY,
    draw_line,
    new_figure,
    save,
    style_of,
    ticks_at,
)
from icecore.reporting.imitation_claims import Imitated, imitated
from icecore.store import Records
from icecore.sweeps.paper import fig6
from icecore.sweeps.scales import SCALES


def imitations_of(scale: str, preset: str, records: Records) -> list[Imitated]:
    """What is recorded of Figure 6."""
    by_setting = seeds_by_setting(records)
    points = [imitated(cell, by_setting) for cell in fig6(SCALES[scale], preset)]
    return [point for point in points if point.values]


def draw_imitations(points: Sequence[Imitated], title: str, paths: Sequence[Path]) -> None:
    """KL against the target's width, on a linear and on a logarithmic axis."""
    figure = new_figure(7.4, 3.6)
    panels = figure.subplots(1, 2)
    students = list(dict.fromkeys(point.student for point in points))
    for panel in panels:
        for kind in COLOURS:
            for student in students:
                along = [point for point in points if (point.kind, point.student) == (kind, student)]
                if along:
                    widths = [point.target_width for point in along]
                    style = style_of(kind, student == students[0])
                    draw_line(panel, widths, along, label=f"{kind} {student}", **style)
        draw_floors(panel, points)
        ticks_at(panel, sorted({point.target_width for point in points}))
        panel.set_xlabel("width of the target", fontsize=8)
    panels[0].set_ylim(bottom=0)
    panels[1].set_yscale("log")
    panels[0].set_ylabel("KL(target || student), nats", fontsize=8)
    save(figure, title, paths)


def draw_floors(panel: Any, points: Sequence[Imitated]) -> None:
    for name, dash in (("uniform", DOTS), ("mean_output", DASHES)):
        known = {point.target_width: point.floors[name] for point in points if name in point.floors}
        label = f"floor: {name.replace('_', ' ')}"
        if known:
            widths, floors = zip(*sorted(known.items()), strict=True)
            panel.plot(widths, floors, color=GREY, linestyle=dash, linewidth=0.9, label=label)
