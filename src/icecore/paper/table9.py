"""Table 9: the linearized transformer, whose attention is a prefix sum.

SOURCE: Zhong & Andreas, NeurIPS 2024, width 512. It says neither how many restarts there were nor what was trained.
DIFFERS: we compare both Random and Normal with its numbers.
"""

from icecore.paper.accuracy import accuracy_claims
from icecore.paper.cells import PaperCell
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment
from icecore.paper.numbers import Number, tolerance_for
from icecore.paper.scales import FOUR, Scale
from icecore.reporting.claim import Claim
from icecore.sweeps.names import TRAINED, CellName

PRINTED = {"needle": 17.67, "decimal-addition": 26.39, "parentheses": 97.32}


def name_of(task: str, kind: str) -> CellName:
    return CellName(task, kind, 512, variant="linearized")


NUMBERS = [
    Number(name_of(task, kind), value, tolerance_for(value)) for kind in TRAINED for task, value in PRINTED.items()
]


def cells(scale: Scale, preset: str) -> list[PaperCell]:
    model = {"attention": "prefix-sum"}
    return [scale.cell(name_of(task, kind), preset, model=model) for kind in TRAINED for task in FOUR[1:]]


def claims(experiment: Experiment, evidence: Evidence) -> list[Claim]:
    return accuracy_claims(experiment, evidence, NUMBERS)


TABLE9 = Experiment("table9", "linearized attention", cells, claims, has_presets=True)
