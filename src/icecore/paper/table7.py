"""Table 7: Table 4 at width 512. SOURCE: Zhong & Andreas, NeurIPS 2024."""

from icecore.paper.cells import PaperCell
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment
from icecore.paper.scales import Scale
from icecore.paper.shares import share_claims, shares
from icecore.paper.table4 import TASKS, accuracy_matches, analyzed
from icecore.reporting.claim import Claim
from icecore.sweeps.names import CellName

SHARES = shares(
    {
        CellName("decimal-addition", "Normal", 512): (40.7, 91.6, 89.6, 3.3, 6.4, 6.8),
        CellName("decimal-addition", "Random", 512): (73.3, 62.6, 51.4, 4.3, 4.0, 3.6),
        CellName("needle", "Normal", 512): (31.4, 75.4, 42.5, 2.8, 5.6, 3.9),
        CellName("needle", "Random", 512): (51.3, 42.6, 33.9, 4.4, 4.6, 3.9),
        CellName("parentheses", "Normal", 512): (47.5, 100.0, 99.9, 7.0, 11.1, 9.4),
        CellName("parentheses", "Random", 512): (85.2, 89.1, 84.7, 9.7, 8.0, 6.7),
    }
)


def cells(scale: Scale, preset: str) -> list[PaperCell]:
    return analyzed(scale, preset, TASKS[1:], 512)


def claims(experiment: Experiment, evidence: Evidence) -> list[Claim]:
    return share_claims(experiment, evidence, SHARES, lambda: accuracy_matches(evidence))


TABLE7 = Experiment("table7", "variance explained by 10 directions, width 512", cells, claims)
