"""Table 3: memorized bits per parameter.

SOURCE: Zhong & Andreas, NeurIPS 2024, width 128: accuracy in %, memorized bits, trained parameters, bits per trained
parameter. Bits are computed from rounded accuracies: accuracy x 262,144 x 9, without subtracting chance. The tolerances
were fixed before any run of this size was recorded.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from icecore.drawing import BLUE, finished, new_figure
from icecore.paper.cells import PaperCell
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment, Figure
from icecore.paper.scales import Scale
from icecore.reporting.chart import Axis, Chart, Dot, Rule, line_of
from icecore.reporting.claim import (
    Claim,
    Source,
    around,
    median_of,
    nearest_baseline,
    strictly_judged,
    verdict_of,
    without_verdict,
)
from icecore.store.records import Record, key_of
from icecore.sweeps.names import TRAINED, CellName

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

COLUMNS = ("accuracy", "bits", "trained parameters", "bits per parameter")
PRINTED = {"Normal": (80.54, 1_900_177, 659_584, 2.88), "Random": (4.53, 106_876, 262_784, 0.41)}
TENTH = (0.1, "a tenth of the number: it is printed without a spread, and text and scripts train differently")
FOLLOWS = "follows from the accuracy"  # each model is one measurement, whatever is computed from it
LAPTOP_RATIO = 2.0  # a laptop's table is smaller: Normal must memorize several times as much per parameter
LAPTOP_REASON = "the laptop's table and model are smaller than the paper's"
# Not in the paper: bits from the loss, with chance subtracted, and bits per parameter with frozen ones included.
OURS = {
    "bits from loss": "loss_bits",
    "bits from loss per trained parameter": "loss_bits_per_trained",
    "bits per parameter, frozen included": "accuracy_bits_per_parameter",
    "bits from loss per parameter, frozen included": "loss_bits_per_parameter",
}


def cells(scale: Scale, preset: str) -> list[PaperCell]:
    return [scale.cell(CellName("memorization", kind, 128), preset, body="memorizer") for kind in reversed(TRAINED)]


def runs_with(key: str, cell: PaperCell, evidence: Evidence) -> list[Record]:
    return [run for run in evidence.runs(cell) if key in run]


def claims(experiment: Experiment, evidence: Evidence) -> list[Claim]:
    """Return claims on the paper's four numbers per model, on our own counts, and on the ratio of Normal to Random."""
    found: list[Claim] = []
    runs_of = {cell.name: runs_with("capacity", cell, evidence) for cell in experiment.of(evidence)}
    for name, runs in runs_of.items():
        own = []
        for column, paper, values in zip(COLUMNS, PRINTED[name.kind], papers_values(runs), strict=True):
            own.append(number_claim(name.column, column, paper, values, evidence.scale, runs))
        for column, key in OURS.items():
            values = [run["capacity"][key] for run in runs]
            own.append(own_claim(name.column, column, list(map(round, values)) if key == "loss_bits" else values))
        keys = tuple(map(key_of, runs))
        found += [replace(one, sources=(Source(str(name), one.values, keys),) if runs else ()) for one in own]
    found.append(ratio_claim({name.kind: runs for name, runs in runs_of.items()}, evidence.scale))
    return strictly_judged(found if evidence.scale == "laptop" else list(map(of_own, found)))


def of_own(claim: Claim) -> Claim:
    """Return the claim; if it has a number that only restates an accuracy, without a verdict of its own."""
    restates = claim.allowed is None and claim.paper is not None
    return replace(claim, verdict="follows", note=FOLLOWS) if restates else claim


def papers_values(runs: Sequence[Record]) -> tuple[list[float], ...]:
    """Return the values as the paper counts them, by its columns."""
    return (
        [100 * run["accuracy"] for run in runs],
        [round(run["capacity"]["accuracy_bits"]) for run in runs],
        [run["trained_parameters"] for run in runs],
        [run["capacity"]["accuracy_bits_per_trained"] for run in runs],
    )


def whole_median(values: Sequence[float]) -> float | None:
    """Return the median, rounded if all values are integers."""
    ours = median_of(values)
    return round(ours) if ours is not None and all(isinstance(value, int) for value in values) else ours


def number_claim(
    row: str, column: str, paper: float, values: Sequence[float], scale: str, runs: Sequence[Record]
) -> Claim:
    ours = whole_median(values)
    share, reason = (0.0, "counts are exact") if column == "trained parameters" else TENTH
    allowed = share * paper
    tolerance = f"{allowed:,.0f}" if isinstance(paper, int) else f"{allowed:.2f}"
    verdict = verdict_of(ours, ours is not None and abs(ours - paper) <= allowed)
    if scale == "laptop":
        tolerance, reason, verdict = "", LAPTOP_REASON, without_verdict(ours)
    baseline = 100 * max(runs[0]["baselines"].values(), default=0.0) if runs and column == "accuracy" else None
    is_judged = scale == "paper" and column == "accuracy"
    return Claim(
        "table3",
        f"{row}, {column}",
        paper,
        ours,
        tuple(values),
        baseline,
        tolerance,
        reason,
        verdict,
        digits=2,
        place=(row, column),
        allowed=around(paper, allowed) if is_judged else None,
        null=nearest_baseline(runs[0]["baselines"], paper, allowed) if is_judged and runs else None,
    )


def own_claim(row: str, column: str, values: Sequence[float]) -> Claim:
    ours, reason = whole_median(values), "not in the paper"
    cell, place, verdict = f"{row}, {column}", (row, column), without_verdict(ours)
    return Claim("table3", cell, None, ours, tuple(values), None, "", reason, verdict, digits=2, place=place)


def ratio_claim(runs_of: dict[str, list[Record]], scale: str) -> Claim:
    """Claim the ratio of Normal to Random in bits per trained parameter, as the paper counts them."""
    sources = [
        Source.of(f"memorization, {kind} 128", runs_of[kind], lambda run: run["capacity"]["accuracy_bits_per_trained"])
        for kind in ("Normal", "Random")
    ]
    normal, random = (median_of(source.values) for source in sources)
    ours = normal / random if normal is not None and random else None
    paper = round(PRINTED["Normal"][3] / PRINTED["Random"][3], 2)
    allowed = 2 * TENTH[0] * paper
    tolerance, reason = f"{allowed:.2f}", "a tenth of each of the two numbers"
    agrees = ours is not None and abs(ours - paper) <= allowed
    if scale == "laptop":
        tolerance, reason = f"at least {LAPTOP_RATIO:g}", f"{LAPTOP_REASON}; the ratio stays large"
        agrees = ours is not None and ours >= LAPTOP_RATIO
    place = ("Normal over Random", COLUMNS[-1])
    return Claim(
        "table3",
        ", ".join(place),
        paper,
        ours,
        (),
        None,
        tolerance,
        reason,
        verdict_of(ours, agrees),
        digits=2,
        seeds=min(map(len, runs_of.values())),
        place=place,
        compared="ratio",
        sources=tuple(sources),
    )


MEASURES = {
    "accuracy_bits_per_trained": "the paper's count,\nper trained parameter",
    "loss_bits_per_trained": "from loss,\nper trained parameter",
    "accuracy_bits_per_parameter": "the paper's count,\nfrozen included",
    "loss_bits_per_parameter": "from loss,\nfrozen included",
}


@dataclass(frozen=True)
class Bits:
    """Bits per parameter, counted in one way, of one kind of training; one value per seed."""

    kind: str
    measure: str
    values: tuple[float, ...]
    paper: float | None
    runs: tuple[str, ...] = ()  # the keys of the values' runs


def bits_of(evidence: Evidence) -> list[Bits]:
    """Return the bits per parameter, counted in every way."""
    found: list[Bits] = []
    for cell in TABLE3.of(evidence):
        runs, kind = runs_with("capacity", cell, evidence), cell.name.kind
        for measure in MEASURES if runs else ():
            is_printed = measure == "accuracy_bits_per_trained" and evidence.scale == "paper"
            values, keys = tuple(run["capacity"][measure] for run in runs), tuple(map(key_of, runs))
            found.append(Bits(kind, measure, values, PRINTED[kind][3] if is_printed else None, keys))
    return found


def draw_bits(bits: Sequence[Bits], title: str) -> "Drawn":
    """Draw a bar per median, a dot per seed, and a black line where the paper has a number."""
    figure = new_figure(6.4, 3.2)
    panel = figure.subplots()
    for shift, kind in ((-0.2, "Random"), (0.2, "Normal")):
        here = [one for one in bits if one.kind == kind]
        places = [list(MEASURES).index(one.measure) + shift for one in here]
        heights = [statistics.median(one.values) for one in here]
        fill: dict[str, Any] = (
            {"color": BLUE} if kind == "Random" else {"color": "white", "edgecolor": BLUE, "hatch": "//"}
        )
        panel.bar(places, heights, 0.38, label=kind, **fill)
        for place, one in zip(places, here, strict=True):
            panel.plot([place] * len(one.values), one.values, ".", color="black", markersize=4)
            if one.paper is not None:
                panel.hlines(one.paper, place - 0.19, place + 0.19, color="black", linewidth=1.6, label="the paper")
    panel.set_xticks(range(len(MEASURES)), list(MEASURES.values()))
    panel.set_ylabel("bits", fontsize=8)
    return finished(figure, title)


def chart_bits(bits: Sequence[Bits], title: str) -> Chart:
    """Chart the same: a bar per median, with the paper's numbers as rules."""
    labels = {measure: label.replace("\n", " ") for measure, label in MEASURES.items()}
    kinds = dict.fromkeys(one.kind for one in bits)
    lines = [
        line_of(kind, kind, 0, (Dot(labels[one.measure], one.values, one.runs) for one in bits if one.kind == kind))
        for kind in kinds
    ]
    rules = [
        Rule("the paper", "", ((labels[one.measure], one.paper),), line=one.kind)
        for one in bits
        if one.paper is not None
    ]
    return Chart(title, Axis("", "category"), Axis("bits", least=0), tuple(lines), tuple(rules), "bar")


TABLE3 = Experiment(
    "table3",
    "memorization: bits per parameter",
    cells,
    claims,
    {"capacity": Figure("Memorized bits per parameter", bits_of, draw_bits, chart_bits)},
)
