"""Table 2: accuracy when more parts are frozen.

SOURCE: Zhong & Andreas, NeurIPS 2024: accuracy in %, medians of ten restarts, width 1024.
"""

from icecore.paper.accuracy import accuracy_claims
from icecore.paper.cells import PaperCell
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment
from icecore.paper.numbers import numbers
from icecore.paper.scales import FOUR, Scale
from icecore.paper.table1 import short_strings
from icecore.reporting.claim import Claim
from icecore.sweeps.names import PARTS, CellName

COLUMNS = tuple((part, None) for part in PARTS)
NUMBERS = [
    *numbers({"modular-addition": (47.9, 68.3, 100.0)}, COLUMNS, "train_accuracy"),
    *numbers(
        {
            "modular-addition": (0.4, 1.2, 100.0),
            "needle": (17.7, 100.0, 98.5),
            "decimal-addition": (27.3, 100.0, 48.5),
            "parentheses": (92.3, 100.0, 100.0),
        },
        COLUMNS,
    ),
]
# Three seeds of E_token & U err, each on 73 items; one of them was inspected.
KNOWN = {CellName("parentheses", part): short_strings("released") for part in PARTS}


def cells(scale: Scale, preset: str) -> list[PaperCell]:
    return [scale.cell(CellName(task, part), preset, width=1024) for task in FOUR for part in PARTS]


def claims(experiment: Experiment, evidence: Evidence) -> list[Claim]:
    return accuracy_claims(experiment, evidence, NUMBERS, KNOWN)


TABLE2 = Experiment("table2", "accuracy when more parts are frozen", cells, claims, has_presets=True)
