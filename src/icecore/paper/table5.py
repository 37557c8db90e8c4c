"""Table 5: variance explained in language models of 4 layers and width 512. SOURCE: Zhong & Andreas, NeurIPS 2024."""

from dataclasses import replace

from icecore.paper.cells import PaperCell
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment
from icecore.paper.language import OTHER_TEXT, kind_of, language_cell, layers_of, of_one_text, width_of
from icecore.paper.scales import Scale
from icecore.paper.shares import null_of, share_claim, shares
from icecore.reporting.claim import Claim, strictly_judged
from icecore.store.records import Record
from icecore.sweeps.names import TRAINED, CellName

LAYERS, WIDTH = 4, 512
SHARES = shares(
    {
        CellName("language", "Normal", WIDTH): (29.5, 27.3, 24.3, 23.2, 17.6, 8.6, 16.4, 14.7, 13.9, 5.9),
        CellName("language", "Random", WIDTH): (43.0, 30.2, 31.8, 32.1, 31.7, 3.3, 2.9, 2.8, 2.9, 2.9),
    }
)


def cells(scale: Scale, preset: str) -> list[PaperCell]:
    width = scale.language.analyzed
    return [language_cell(scale, kind, width, LAYERS, preset, is_analyzed=True) for kind in reversed(TRAINED)]


def runs(_experiment: Experiment, evidence: Evidence) -> list[Record]:
    return of_one_text(evidence.all_runs, evidence.preset)


def inside_runs(evidence: Evidence) -> dict[CellName, list[Record]]:
    """Return the records of activations of the paper's two models."""
    inside = [run for run in of_one_text(evidence.all_inside, evidence.preset) if layers_of(run) == LAYERS]
    return {
        share.cell: [run for run in inside if (kind_of(run), width_of(run)) == (share.cell.kind, share.cell.width)]
        for share in SHARES
    }


def claims(experiment: Experiment, evidence: Evidence) -> list[Claim]:
    """Return claims on shares pooled over every position: all positions of a window are read."""
    inside = [run for run in of_one_text(evidence.all_inside, evidence.preset) if layers_of(run) == LAYERS]
    width = max(map(width_of, inside), default=WIDTH)
    is_comparable = evidence.scale == "paper" and width == WIDTH
    found = []
    for share in SHARES:
        own = [run for run in inside if kind_of(run) == share.cell.kind and width_of(run) == width]
        named = replace(share, cell=replace(share.cell, width=width))
        claim = share_claim(experiment.name, named, own, is_comparable, f"; {OTHER_TEXT}")
        found.append(replace(claim, null=null_of(share, SHARES)))
    return strictly_judged(found)


TABLE5 = Experiment(
    "table5", "variance explained by 10 directions, language models", cells, claims, runs=runs, needs_text=True
)
