"""Random bodies narrower than 1024, as the scripts initialize them and with the gain of 1024. Not in the paper.

A random matrix of standard deviation s makes a vector about s x sqrt(width) times as long. The scripts use the same s
at every width, so the layers of a narrow body do less. Needle is also trained at a higher learning rate, because a
narrow body may fail due to the rate.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from icecore.paper.accuracy import accuracy_claims
from icecore.paper.cells import PaperCell
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment, Figure
from icecore.paper.fig7 import FIG7, points_of
from icecore.paper.scales import FOUR, WIDTHS, Scale
from icecore.reporting.figures.widths import Point, chart_widths, draw_widths
from icecore.sweeps.names import CellName

if TYPE_CHECKING:
    from icecore.sweeps.cells import Cell

HIGHER_RATE = 5  # times the usual one


def cells(scale: Scale, preset: str) -> list[PaperCell]:
    found = []
    for task in FOUR:
        for init in (own_init(preset), "matched"):
            for width in WIDTHS[:-1]:
                name = CellName(task, "Random", width, variant=init)
                found.append(scale.cell(name, preset, model={"init": init}))
                if task == "needle":
                    faster = replace(name, variant=f"{init}, lr x{HIGHER_RATE}")
                    found.append(scale.cell(faster, preset, model={"init": init}, change=with_higher_rate))
    return found


def own_init(preset: str) -> str:
    return "paper" if preset == "paper" else "released"


def with_higher_rate(cell: "Cell") -> "Cell":
    rate = HIGHER_RATE * cell.of_one_seed.training.lr
    return replace(cell, training=cell.training | {"lr": rate})


def initializations(evidence: Evidence) -> list[Point]:
    """Return points of Random bodies, as the scripts initialize them and with the gain of width 1024."""
    own = own_init(evidence.preset)
    widths = [cell for cell in FIG7.of(evidence) if cell.name.kind == "Random"]
    # At laptop scale the bodies of Figure 7 have the gain of width 1024.
    lines = ["Random, matched" if evidence.scale == "laptop" else "Random"] * len(widths)
    narrow = INIT.of(evidence)
    lines_of_narrow = [cell.name.line.replace(f", {own}", "") for cell in narrow]
    points = points_of(widths, lines, evidence) | points_of(narrow, lines_of_narrow, evidence)
    return list(points.values())


INIT = Experiment(
    "init",
    "narrow bodies with the gain of width 1024 (not in the paper)",
    cells,
    accuracy_claims,
    {
        "init": Figure(
            "Random bodies: the released initialization, and the gain of width 1024",
            initializations,
            draw_widths,
            chart_widths,
        )
    },
    columns="width",
)
