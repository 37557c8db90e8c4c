"""Figure 8, accuracy during memorization, and how many bits a parameter that is."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from icecore.reporting.claim import seeds_by_setting
from icecore.reporting.figures.drawing import COLOURS, MARKERS, new_figure, save
from icecore.reporting.memorization_claims import runs_with
from icecore.reporting.paper_numbers import TABLE3
from icecore.store import Records
from icecore.sweeps.paper import table3
from icecore.sweeps.scales import SCALES

PRESETS = {"released": "-", "paper": "--"}
MEASURES = {
    "accuracy_bits_per_trained": "the paper's count,\na trained parameter",
    "loss_bits_per_trained": "by the loss,\na trained parameter",
    "accuracy_bits_per_parameter": "the paper's count,\nfrozen ones too",
    "loss_bits_per_parameter": "by the loss,\nfrozen ones too",
}


@dataclass(frozen=True)
class Curve:
    """Accuracies in % during training, of one kind of training; a tuple of them a seed."""

    kind: str
    preset: str
    steps: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Bits:
    """One way to count bits a parameter, of one kind of training; a number a seed."""

    kind: str
    measure: str
    values: tuple[float, ...]
    paper: float | None


def curves_of(scale: str, _preset: str, records: Records) -> list[Curve]:
    """What is recorded of Figure 8, of both presets."""
    by_setting = seeds_by_setting(records)
    found: list[Curve] = []
    for preset in PRESETS:
        for cell in table3(SCALES[scale], preset):
            curves = [run["curve"] for run in runs_with("curve", cell, by_setting)]
            curves = [curve for curve in curves if curve["steps"] == curves[0]["steps"]]
            if curves:
                values = tuple(tuple(100 * value for value in curve["accuracy"]) for curve in curves)
                found.append(Curve(cell.name.kind, preset, tuple(curves[0]["steps"]), values))
    return found


def bits_of(scale: str, preset: str, records: Records) -> list[Bits]:
    """Bits a parameter, each way to count them."""
    by_setting = seeds_by_setting(records)
    found: list[Bits] = []
    for cell in table3(SCALES[scale], preset):
        runs = runs_with("capacity", cell, by_setting)
        for measure in MEASURES if runs else ():
            paper = TABLE3[cell.name.column][3] if measure == "accuracy_bits_per_trained" and scale == "paper" else None
            values = tuple(sorted(run["capacity"][measure] for run in runs))
            found.append(Bits(cell.name.kind, measure, values, paper))
    return found


def draw_curves(curves: Sequence[Curve], title: str, paths: Sequence[Path]) -> None:
    """Medians as lines, all seeds within the band."""
    figure = new_figure(5.4, 3.4)
    panel = figure.subplots()
    for curve in curves:
        middle = [statistics.median(each) for each in zip(*curve.values, strict=True)]
        least, most = ([f(each) for each in zip(*curve.values, strict=True)] for f in (min, max))
        label, colour = f"{curve.kind}, preset {curve.preset}", COLOURS[curve.kind]
        panel.plot(
            curve.steps,
            middle,
            color=colour,
            linestyle=PRESETS[curve.preset],
            linewidth=1.4,
            marker=MARKERS[curve.kind],
            markersize=4,
            markevery=0.1,
            label=label,
        )
        panel.fill_between(curve.steps, least, most, color=colour, alpha=0.2, linewidth=0)
    panel.set_xlabel("step", fontsize=8)
    panel.set_ylabel("accuracy on all items, %", fontsize=8)
    panel.set_xlim(left=0)
    panel.set_ylim(0, 104)
    save(figure, title, paths)


def draw_bits(bits: Sequence[Bits], title: str, paths: Sequence[Path]) -> None:
    """A bar a median, a dot a seed, a black line where the paper has a number."""
    figure = new_figure(6.4, 3.2)
    panel = figure.subplots()
    for shift, kind in ((-0.2, "Random"), (0.2, "Normal")):
        here = [one for one in bits if one.kind == kind]
        places = [list(MEASURES).index(one.measure) + shift for one in here]
        heights = [statistics.median(one.values) for one in here]
        panel.bar(places, heights, 0.38, color=COLOURS[kind], hatch="//" * (kind == "Normal"), label=kind)
        for place, one in zip(places, here, strict=True):
            panel.plot([place] * len(one.values), one.values, ".", color="black", markersize=4)
            if one.paper is not None:
                panel.hlines(one.paper, place - 0.19, place + 0.19, color="black", linewidth=1.6, label="the paper")
    panel.set_xticks(range(len(MEASURES)), list(MEASURES.values()))
    panel.set_ylabel("bits", fontsize=8)
    save(figure, title, paths)
