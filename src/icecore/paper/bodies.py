"""Other random bodies under one protocol: is it the transformer, or would any random network do? Not in the paper.

Four tasks x bodies x {Random, Normal, U only} x widths, as the library initializes them and with the gain of width
1024; memorization, for its bits; and parity, for the theory of linear recurrences. Two Mamba blocks stand for one layer
of a transformer. At laptop scale each cell takes its best of two rates on validation items; at the paper's scale
`icecore reproduce bodies --lr 1e-3,5e-3` does that.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from icecore.paper.accuracy import accuracy_claims
from icecore.paper.bodies_tables import NEGATIVE, body_of, tables
from icecore.paper.cells import PaperCell
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment, Figure
from icecore.paper.fig7 import points_of
from icecore.paper.scales import FOUR, Scale
from icecore.reporting.figures.widths import Point, chart_widths, draw_widths
from icecore.sweeps.names import CellName

if TYPE_CHECKING:
    from icecore.sweeps.cells import Cell

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
OF_PARITY = {**BODIES, NEGATIVE: ("deltanet", {"negative_eigenvalues": True})}
TRAINED = ("Random", "Normal", "U only")
WIDTHS = {"paper": (256, 512, 64), "laptop": (64, 128, 32)}  # the first has predictions
SHARES = {"Random": (0.3, 1.0), "U only": (0.3, 1.0), "Normal": (1.0, 5.0)}  # of the laptop's rates for transformers
MEMORY_WIDTH, PARITY_WIDTH = {"paper": 128, "laptop": 64}, {"paper": 256, "laptop": 64}
MEMORY_STEPS = 16_800  # DIFFERS: a tenth of the paper's, so that all bodies are measured in an hour


def order(scale: str) -> list[tuple[int, str, int]]:
    """Return width, what trains, and which initialization: the most telling first, in case time is short."""
    one, two, _ = WIDTHS[scale]
    first = [(one, "Random", 0), (one, "Random", 1), (one, "Normal", 0), (two, "Random", 0), (two, "Normal", 0)]
    rest = [(width, kind, rank) for rank in (0, 1) for kind in TRAINED for width in WIDTHS[scale]]
    return list(dict.fromkeys(first + rest))


def cells(scale: Scale, preset: str) -> list[PaperCell]:
    names = [
        CellName(task, kind, width, variant=f"{line}, {inits_of(line)[rank]}")
        for width, kind, rank in order(scale.name)
        for task in FOUR
        for line in BODIES
        if rank < len(inits_of(line))
    ]
    place = sum(name.width == WIDTHS[scale.name][0] and name.kind == "Random" for name in names)
    others = [
        ("memorization", "Random", MEMORY_WIDTH[scale.name], BODIES),
        ("parity", "Normal", PARITY_WIDTH[scale.name], OF_PARITY),
    ]
    names[place:place] = [
        CellName(task, kind, width, variant=f"{line}, {inits_of(line)[0]}")
        for task, kind, width, lines in others
        for line in lines
    ]
    return [body_cell(scale, preset, name) for name in names]


def inits_of(line: str) -> tuple[str, ...]:
    """Return the initializations of a body. The LSTM's and GRU's gain does not depend on the width."""
    return ("library",) if line in ("lstm", "gru") else ("matched", "library")


def body_cell(scale: Scale, preset: str, name: CellName) -> PaperCell:
    """Return the cell of a body: the scale's transformer cell with another model."""
    line, _, init = name.variant.rpartition(", ")

    def with_body(cell: "Cell") -> "Cell":
        from icecore.models import MODELS

        called, settings = OF_PARITY[line]
        own: dict[str, object] = {"init": "released" if called == "transformer" and init == "library" else init}
        if called == "lstm":  # it has one initialization
            own = {}
        is_short = name.task == "memorization" and scale.name == "paper"
        training = cell.training | ({"steps": MEMORY_STEPS} if is_short else {})
        model = MODELS[called](**{"width": cell.model.width, **settings, **own})
        return replace(cell, model=model, training=training, rates=rates_of(cell, scale))

    return scale.cell(name, preset, model={"width": name.width}, change=with_body)


def rates_of(cell: "Cell", scale: Scale) -> tuple[float, ...]:
    """Return the rates that a cell chooses from, none at the paper's scale."""
    if scale.name == "paper":
        return ()
    usual = cell.of_one_seed.training.lr
    return tuple(float(f"{share * usual:.2g}") for share in SHARES[cell.name.kind])


def points(evidence: Evidence, rank: int) -> list[Point]:
    """Return the recorded points of Random bodies with their first or second initialization."""
    chosen = []
    for cell in BODIES_EXPERIMENT.of(evidence):
        (line, init), name = body_of(cell), cell.name
        if name.kind == "Random" and name.task in FOUR and inits_of(line)[min(rank, len(inits_of(line)) - 1)] == init:
            chosen.append((cell, f"Random, {line}"))
    return list(points_of([cell for cell, _ in chosen], [line for _, line in chosen], evidence).values())


BODIES_EXPERIMENT = Experiment(
    "bodies",
    "other random bodies on the four tasks (not in the paper)",
    cells,
    accuracy_claims,
    {
        "bodies": Figure(
            "Random bodies with the gain of width 1024: accuracy against width",
            lambda evidence: points(evidence, 0),
            draw_widths,
            chart_widths,
        ),
        "bodies-library": Figure(
            "Random bodies as their libraries start them: accuracy against width",
            lambda evidence: points(evidence, 1),
            draw_widths,
            chart_widths,
        ),
    },
    columns="width",
    has_rates=True,
    tables=tables,
)
