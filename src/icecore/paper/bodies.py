"""Other random bodies under one protocol: is it the transformer, or would any random network do? Not in the paper.

Four tasks x bodies x {U only, Random, Normal} x widths, as the library initializes them and with the gain of width
1024; then memorization. Two Mamba blocks stand for one layer of a transformer.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from icecore.paper.accuracy import accuracy_claims
from icecore.paper.cells import PaperCell
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment, Figure
from icecore.paper.fig7 import points_of
from icecore.paper.scales import FOUR, Scale
from icecore.reporting.figures.widths import Point, draw_widths
from icecore.sweeps.names import CellName

if TYPE_CHECKING:
    from icecore.sweeps.cells import Cell

# Width 256 and Random first: the most telling cells, if time is short.
WIDTHS = (256, 512, 64)
TRAINED = ("Random", "U only", "Normal")
# By the name of the line: the class's name on the command line, and its settings.
BODIES: dict[str, tuple[str, dict[str, object]]] = {
    "transformer": ("transformer", {}),
    "random attention": ("transformer", {"attention": "random"}),
    "llama": ("llama", {}),
    "mamba": ("mamba", {}),
    "linear attention": ("linear-attention", {"decay": "none"}),
    "retnet": ("linear-attention", {"decay": "fixed", "rotary": True}),
    "gla": ("linear-attention", {"decay": "channel"}),
    "mamba-2": ("linear-attention", {"decay": "head"}),
    "deltanet": ("deltanet", {}),
    "gru": ("gru", {}),
    "lstm": ("lstm", {}),
}
MEMORY_WIDTH = 128


def cells(scale: Scale, preset: str) -> list[PaperCell]:
    names = [
        CellName(task, kind, width, variant=f"{line}, {init}")
        for width in WIDTHS
        for kind in TRAINED
        for task in FOUR
        for line in BODIES
        for init in inits_of(line)
    ]
    names += [
        CellName("memorization", "Random", MEMORY_WIDTH, variant=f"{line}, {inits_of(line)[0]}") for line in BODIES
    ]
    return [body_cell(scale, preset, name) for name in names]


def inits_of(line: str) -> tuple[str, ...]:
    """Return the initializations of a body. The LSTM's and GRU's gain does not depend on the width."""
    return ("library",) if line in ("lstm", "gru") else ("matched", "library")


def body_cell(scale: Scale, preset: str, name: CellName) -> PaperCell:
    """Return the cell of a body: the scale's transformer cell with another model."""
    line, _, init = name.variant.partition(", ")

    def with_body(cell: "Cell") -> "Cell":
        from icecore.models import MODELS

        called, settings = BODIES[line]
        own: dict[str, object] = {"init": "released" if called == "transformer" and init == "library" else init}
        if called == "lstm":  # it has one initialization
            own = {}
        return replace(cell, model=MODELS[called](**{"width": cell.model.width, **settings, **own}))

    return scale.cell(name, preset, change=with_body)


def all_bodies(evidence: Evidence) -> list[Point]:
    own = BODIES_EXPERIMENT.of(evidence)
    chosen = [cell for cell in own if cell.name.kind == "Random" and cell.name.task in FOUR]
    return list(points_of(chosen, [cell.name.line for cell in chosen], evidence).values())


BODIES_EXPERIMENT = Experiment(
    "bodies",
    "other random bodies on the four tasks (not in the paper)",
    cells,
    accuracy_claims,
    {"bodies": Figure("Random bodies: accuracy against width", all_bodies, draw_widths)},
    columns="width",
)
