"""Table 4: variance explained by the top 10 directions and neurons, at width 1024.

SOURCE: Zhong & Andreas, NeurIPS 2024, medians in %; memorization at width 128.
"""

from icecore.paper import table1, table2
from icecore.paper.accuracy import matches_of
from icecore.paper.cells import PaperCell
from icecore.paper.differences import Matches
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment
from icecore.paper.scales import Scale
from icecore.paper.shares import share_claims, shares
from icecore.reporting.claim import Claim
from icecore.sweeps.names import TRAINED, CellName

TASKS = ("modular-addition", "decimal-addition", "needle", "parentheses")  # in the order of Table 4
SHARES = shares(
    {
        CellName("modular-addition", "Normal", 1024): (42.0, 21.5, 13.8, 3.8, 1.6, 3.4),
        CellName("modular-addition", "Random", 1024): (72.9, 63.6, 44.7, 2.8, 3.3, 2.9),
        CellName("decimal-addition", "Normal", 1024): (45.3, 87.0, 87.3, 1.7, 3.3, 2.6),
        CellName("decimal-addition", "Random", 1024): (55.1, 72.7, 63.5, 2.0, 3.9, 2.8),
        CellName("needle", "Normal", 1024): (35.5, 83.5, 47.7, 1.5, 5.2, 2.8),
        CellName("needle", "Random", 1024): (31.3, 30.0, 21.5, 1.8, 1.8, 1.6),
        CellName("parentheses", "Normal", 1024): (72.0, 99.4, 98.2, 2.9, 7.8, 18.0),
        CellName("parentheses", "Random", 1024): (74.9, 85.8, 80.9, 4.9, 4.0, 3.7),
        CellName("memorization", "Normal", 128): (15.0, 25.3, 23.4, 10.2, 12.2, 10.5),
        CellName("memorization", "Random", 128): (27.5, 27.5, 24.7, 9.9, 9.8, 9.7),
    }
)


def analyzed(scale: Scale, preset: str, tasks: tuple[str, ...], width: int) -> list[PaperCell]:
    return [
        scale.cell(CellName(task, kind, width), preset, is_analyzed=True)
        for task in tasks
        for kind in reversed(TRAINED)
    ]


def cells(scale: Scale, preset: str) -> list[PaperCell]:
    memorizers = [
        scale.cell(CellName("memorization", kind, 128), preset, body="memorizer", is_analyzed=True)
        for kind in reversed(TRAINED)
    ]
    return analyzed(scale, preset, TASKS, 1024) + memorizers


def accuracy_matches(evidence: Evidence) -> Matches:
    """Return the cells of Tables 1 and 2 that differ, each with the changes that give the paper's number."""
    return [
        match
        for table, printed in ((table1.TABLE1, table1.NUMBERS), (table2.TABLE2, table2.NUMBERS))
        for match in matches_of(table, evidence, printed)
    ]


def claims(experiment: Experiment, evidence: Evidence) -> list[Claim]:
    return share_claims(experiment, evidence, SHARES, lambda: accuracy_matches(evidence))


TABLE4 = Experiment("table4", "variance explained by 10 directions, width 1024 (memorization 128)", cells, claims)
