"""Accuracy over width and gain of the initial body. Not in the paper."""

from icecore.paper.accuracy import accuracy_claims
from icecore.paper.cells import PaperCell
from icecore.paper.experiment import Experiment
from icecore.paper.scales import FOUR, Scale
from icecore.sweeps.names import CellName

GAINS = (0.5, 1.0, 2.0, 4.0)
WIDTHS = (64, 256, 1024)


def cells(scale: Scale, preset: str) -> list[PaperCell]:
    return [
        scale.cell(CellName(task, "Random", width, variant=f"gain {gain:g}"), preset, model={"gain": gain})
        for task in FOUR
        for width in WIDTHS
        for gain in GAINS
    ]


GAIN = Experiment("gain", "accuracy over width and gain (not in the paper)", cells, accuracy_claims, columns="variant")
