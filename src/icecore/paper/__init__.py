"""The paper, one file per table or figure: cells, numbers, tolerances, claims and drawing.

Nothing here imports torch until a cell is trained, so tables of stored results print at once.
"""

from collections.abc import Sequence

from icecore.errors import require, unknown_name
from icecore.paper.bodies import BODIES_EXPERIMENT
from icecore.paper.evidence import Evidence, Spent, spent
from icecore.paper.experiment import Experiment, Figure
from icecore.paper.fig4 import FIG4
from icecore.paper.fig6 import FIG6
from icecore.paper.fig7 import FIG7
from icecore.paper.fig8 import FIG8
from icecore.paper.gain import GAIN
from icecore.paper.init import INIT
from icecore.paper.ladder import LADDER_EXPERIMENT
from icecore.paper.parts import PARTS_EXPERIMENT
from icecore.paper.rank import RANK
from icecore.paper.table1 import TABLE1
from icecore.paper.table2 import TABLE2
from icecore.paper.table3 import TABLE3
from icecore.paper.table4 import TABLE4
from icecore.paper.table5 import TABLE5
from icecore.paper.table6 import TABLE6
from icecore.paper.table7 import TABLE7
from icecore.paper.table9 import TABLE9
from icecore.paper.text import TEXT
from icecore.paper.thaw import THAW
from icecore.paper.transplant import TRANSPLANT, TRANSPLANT_LANGUAGE
from icecore.paper.variations import BATCHES, DATA, MODULUS, POSITIONS, RATES, VARIATIONS
from icecore.reporting.claim import Claim
from icecore.store.records import Records

OF_ONE_RUN = "it shows one run; draw it with icecore analyze RUN --figures DIR"
FIG2 = Experiment("fig2", "attention maps of needle", missing=OF_ONE_RUN, analysis="attention")
FIG3 = Experiment("fig3", "embeddings of modular addition", missing=OF_ONE_RUN, analysis="modular")
FIG5 = Experiment("fig5", "samples of language models", missing="it shows samples; write them with icecore sample RUN")

OF_THE_PAPER = (
    *(TABLE1, TABLE2, TABLE3, TABLE4, TABLE5, TABLE6, TABLE7, TABLE9),
    *(FIG2, FIG3, FIG4, FIG5, FIG6, FIG7, FIG8),
    TEXT,
)
BEYOND = (
    *(INIT, RATES, POSITIONS, MODULUS, BATCHES, DATA, GAIN, BODIES_EXPERIMENT, PARTS_EXPERIMENT, LADDER_EXPERIMENT),
    *(THAW, TRANSPLANT, TRANSPLANT_LANGUAGE, RANK),
)
EXPERIMENTS = {experiment.name: experiment for experiment in (*OF_THE_PAPER, *BEYOND)}
FIGURES: dict[str, tuple[Experiment, Figure]] = {
    name: (experiment, figure) for experiment in EXPERIMENTS.values() for name, figure in experiment.figures.items()
}


def named(names: Sequence[str]) -> list[Experiment]:
    """Return the named experiments; `all` stands for all that can be run."""
    if "all" in names:
        return [experiment for experiment in EXPERIMENTS.values() if experiment.cells is not None]
    for name in names:
        if name not in EXPERIMENTS:
            raise unknown_name("table or figure", name, [*EXPERIMENTS, "all"])
        experiment = EXPERIMENTS[name]
        require(experiment.cells is not None, f"{name} ({experiment.title}) cannot be reproduced: {experiment.missing}")
    return [EXPERIMENTS[name] for name in dict.fromkeys(names)]


def evidence_of(records: Records, scale: str = "paper", preset: str = "released") -> Evidence:
    return Evidence(records, scale, preset, VARIATIONS)


def claims_of(names: Sequence[str], scale: str, preset: str, records: Records) -> list[Claim]:
    """Return the claims of the named experiments."""
    evidence = evidence_of(records, scale, preset)
    return [claim for name in names for claim in EXPERIMENTS[name].claims_of(evidence)]


def spent_on(names: Sequence[str], scale: str, preset: str, records: Records) -> list[Spent]:
    """Return the device time of the runs behind the named experiments; a run behind several counts once."""
    evidence = evidence_of(records, scale, preset)
    return spent(run for name in names for run in EXPERIMENTS[name].runs_of(evidence))


__all__ = [
    "BEYOND",
    "EXPERIMENTS",
    "FIGURES",
    "Evidence",
    "Experiment",
    "claims_of",
    "evidence_of",
    "named",
    "spent_on",
]
