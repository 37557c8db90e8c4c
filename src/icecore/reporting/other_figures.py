"""Figures of the other tasks, from stored records: language (4), imitation (6), memorization (8, bits a parameter)."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icecore.errors import InputError
from icecore.reporting.claim import seeds_by_setting
from icecore.reporting.imitation_claims import Imitated, imitated
from icecore.reporting.language_claims import Trained, trained
from icecore.reporting.memorization_claims import column_of, runs_with
from icecore.reporting.paper_numbers import TABLE3
from icecore.store import Records
from icecore.sweeps.paper import SCALES, fig6, table3

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers tell apart; lines differ in dashes and markers as well.
COLOURS = {"Random": "#0072B2", "Normal": "#009E73"}
MARKERS = {"Random": "o", "Normal": "^"}
DASHES = {"released": "-", "paper": "--"}
FLOORS = {"uniform": ("#777777", (0, (1, 2))), "mean_output": ("#777777", (0, (5, 3)))}
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
    for preset in DASHES:
        for cell in table3(SCALES[scale], preset):
            curves = [run["curve"] for run in runs_with("curve", cell, by_setting)]
            curves = [curve for curve in curves if curve["steps"] == curves[0]["steps"]]
            if curves:
                values = tuple(tuple(100 * value for value in curve["accuracy"]) for curve in curves)
                found.append(Curve(column_of(cell).split()[0], preset, tuple(curves[0]["steps"]), values))
    return found


def bits_of(scale: str, preset: str, records: Records) -> list[Bits]:
    """Bits a parameter, each way to count them."""
    by_setting = seeds_by_setting(records)
    found: list[Bits] = []
    for cell in table3(SCALES[scale], preset):
        runs, column = runs_with("capacity", cell, by_setting), column_of(cell)
        for measure in MEASURES if runs else ():
            paper = TABLE3[column][3] if measure == "accuracy_bits_per_trained" and scale == "paper" else None
            values = tuple(sorted(run["capacity"][measure] for run in runs))
            found.append(Bits(column.split()[0], measure, values, paper))
    return found


def imitations_of(scale: str, preset: str, records: Records) -> list[Imitated]:
    """What is recorded of Figure 6."""
    by_setting = seeds_by_setting(records)
    points = [imitated(cell, by_setting) for cell in fig6(SCALES[scale], preset)]
    return [point for point in points if point.values]


def languages_of(_scale: str, preset: str, records: Records) -> list[Trained]:
    """What is recorded of Figure 4."""
    runs = [run for each in seeds_by_setting(records).values() for run in each]
    return trained(runs, preset)


def draw_languages(points: Sequence[Trained], title: str, paths: Sequence[Path]) -> None:
    """Best validation loss against width; 4 layers have dashes and empty markers."""
    figure = new_figure(5.4, 3.6)
    panel = figure.subplots()
    layers = sorted({point.layers for point in points})
    for kind in COLOURS:
        for count in layers:
            along = [point for point in points if (point.kind, point.layers) == (kind, count)]
            if along:
                widths = [point.width for point in along]
                draw_line(panel, kind, widths, along, f"{kind}, {count} layers", is_first=count == layers[0])
    for name, (colour, dash) in zip(points[0].floors, FLOORS.values(), strict=False):
        panel.axhline(points[0].floors[name], color=colour, linestyle=dash, linewidth=0.9, label=f"floor: {name}")
    widths = sorted({point.width for point in points})
    panel.set_xscale("log", base=2)
    panel.set_xticks(widths, [str(width) for width in widths])
    panel.minorticks_off()
    panel.set_xlabel("width", fontsize=8)
    panel.set_ylabel("best validation loss, nats a token", fontsize=8)
    trained_on = f"within {points[0].epochs:g} epochs of {points[0].train_tokens:,} tokens; the paper: 5 epochs of 2 GB"
    save(figure, f"{title}\n{trained_on}", paths)


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
            linestyle=DASHES[curve.preset],
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


def draw_imitations(points: Sequence[Imitated], title: str, paths: Sequence[Path]) -> None:
    """KL against the target's width, on a linear and on a logarithmic axis."""
    figure = new_figure(7.4, 3.6)
    panels = figure.subplots(1, 2)
    students = list(dict.fromkeys(point.student for point in points))
    for panel in panels:
        for kind in COLOURS:
            for student in students:
                along = [point for point in points if (point.kind, point.student) == (kind, student)]
                if along:
                    widths = [point.target_width for point in along]
                    draw_line(panel, kind, widths, along, f"{kind} {student}", is_first=student == students[0])
        draw_floors(panel, points)
        panel.set_xscale("log", base=2)
        widths = sorted({point.target_width for point in points})
        panel.set_xticks(widths, [str(width) for width in widths])
        panel.minorticks_off()
        panel.set_xlabel("width of the target", fontsize=8)
    panels[0].set_ylim(bottom=0)
    panels[1].set_yscale("log")
    panels[0].set_ylabel("KL(target || student), nats", fontsize=8)
    save(figure, title, paths)


def draw_line(
    panel: Any, kind: str, widths: Sequence[int], along: "Sequence[Imitated | Trained]", label: str, is_first: bool
) -> None:
    """Medians; all seeds between the ends of the bars. Lines after the first have dashes and empty markers."""
    medians = [statistics.median(point.values) for point in along]
    panel.errorbar(
        widths,
        medians,
        yerr=[
            [middle - point.values[0] for point, middle in zip(along, medians, strict=True)],
            [point.values[-1] - middle for point, middle in zip(along, medians, strict=True)],
        ],
        color=COLOURS[kind],
        marker=MARKERS[kind],
        markerfacecolor=COLOURS[kind] if is_first else "white",
        linestyle="-" if is_first else "--",
        markersize=4,
        linewidth=1.3,
        capsize=2,
        label=label,
    )


def draw_floors(panel: Any, points: Sequence[Imitated]) -> None:
    for name, (colour, dash) in FLOORS.items():
        known = {point.target_width: point.floors[name] for point in points if name in point.floors}
        label = f"floor: {name.replace('_', ' ')}"
        if known:
            panel.plot(
                *zip(*sorted(known.items()), strict=True), color=colour, linestyle=dash, linewidth=0.9, label=label
            )


def new_figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: "Figure", title: str, paths: Sequence[Path]) -> None:
    handles = {}
    for panel in figure.axes:
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=7)
        handles |= {label: handle for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=200)


def require_points(name: str, points: Sequence[Any], scale: str, records: Records) -> None:
    if not points:
        entry = "table3" if name == "capacity" else name
        raise InputError(f"nothing of {name} is recorded in {records.path}; icecore reproduce {entry} --scale {scale}")


# By name: what is recorded of it, and how it is drawn.
FIGURES: dict[
    str, tuple[Callable[[str, str, Records], list[Any]], Callable[[list[Any], str, Sequence[Path]], None]]
] = {
    "fig4": (languages_of, draw_languages),
    "fig6": (imitations_of, draw_imitations),
    "fig8": (curves_of, draw_curves),
    "capacity": (bits_of, draw_bits),
}
