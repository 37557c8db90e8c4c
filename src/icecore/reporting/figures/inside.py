"""Figures of what is inside a run: variance, accuracy against k, attention (Figure 2), circles (Figure 3), readout."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from icecore.analysis.circles import circle_pair, components, strongest_frequency
from icecore.errors import require
from icecore.reporting.figures.drawing import BLUE, DOTS, GREEN, GREY, LIGHT_GREY, YELLOW, new_figure, write
from icecore.reporting.inside import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASES = {
    "directions": ("top directions", BLUE, "o"),
    "neurons": ("top neurons", YELLOW, "s"),
    "untrained": ("the untrained model's", GREEN, "^"),
    "random": ("random directions", LIGHT_GREY, "x"),
}


def draw_inside(
    subject: Subject, found: dict[str, dict[str, Any]], folder: Path, pair: tuple[int, int] | None = None
) -> list[Path]:
    """A figure for each analysis that has one, as PNG and PDF; the files. `pair`: the components that circles show."""
    made: dict[str, Figure] = {}
    task = subject.config.task.name
    if "variance" in found:
        made["variance"] = variance_figure(found["variance"], task)
    if "readout" in found:
        made["readout"] = readout_figure(found["readout"], task)
    if "causal" in found:
        made["causal"] = causal_figure(found["causal"], task)
    if "prompt" in found.get("attention", {}):
        made["attention"] = attention_figure(found["attention"]["prompt"])
    if "modular" in found:
        made["circles"] = circles_figure(subject, pair)
    files = {name: [folder / f"{name}.png", folder / f"{name}.pdf"] for name in made}
    for name, figure in made.items():
        write(figure, files[name])
    return [file for each in files.values() for file in each]


def variance_figure(result: dict[str, Any], task: str) -> "Figure":
    """Shares of the top 10 directions and neurons at each place, trained beside untrained."""
    figure = new_figure(7.2, 3.0)
    places = list(result["trained"])
    for panel, kind in zip(figure.subplots(1, 2, sharey=True), ("directions", "neurons"), strict=True):
        for shift, (which, colour) in zip((-0.2, 0.2), (("trained", BLUE), ("untrained", LIGHT_GREY)), strict=True):
            heights = [100 * result[which][place][kind] for place in places]
            panel.bar([index + shift for index in range(len(places))], heights, 0.38, color=colour, label=which)
        panel.set_xticks(range(len(places)), [place.replace(".", "\n") for place in places], fontsize=8)
        panel.set_title(f"top 10 {kind}", fontsize=9, loc="left")
        panel.set_ylim(0, 100)
        finish(panel)
    figure.axes[0].set_ylabel("share of variance, %")
    return with_legend(figure, f"{task}: variance of the residual stream ({result['positions']} positions)")


def readout_figure(result: dict[str, Any], task: str) -> "Figure":
    """A solved unembedding on the untouched body, beside what needs no learning."""
    figure = new_figure(4.6, 3.0)
    panel = figure.subplots()
    kinds = [one["kind"] for one in result["readouts"]]
    for shift, (which, colour) in zip((-0.2, 0.2), (("train", YELLOW), ("test", BLUE)), strict=True):
        heights = [100 * one[f"{which}_accuracy"] for one in result["readouts"]]
        panel.bar([index + shift for index in range(len(kinds))], heights, 0.38, color=colour, label=which)
    floor = 100 * max(result["floors"].values())
    panel.axhline(floor, color=GREY, linewidth=1, linestyle=DOTS, label="floor")
    panel.set_xticks(range(len(kinds)), kinds)
    panel.set_ylim(0, 104)
    panel.set_ylabel("accuracy, %")
    finish(panel)
    return with_legend(figure, f"{task}: the unembedding alone, solved")


def finish(panel: Any) -> None:
    panel.grid(axis="y", alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)


def with_legend(figure: "Figure", title: str) -> "Figure":
    figure.suptitle(title, fontsize=9, x=0.01, ha="left")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def causal_figure(result: dict[str, Any], task: str) -> "Figure":
    figure = new_figure(7.2, 3.2)
    for panel, mode in zip(figure.subplots(1, 2, sharey=True), ("keep", "remove"), strict=True):
        for curve in result["curves"]:
            if curve["mode"] != mode:
                continue
            label, colour, marker = BASES[curve["basis"]]
            accuracy = [100 * value for value in curve["accuracy"]]
            panel.plot(curve["counts"], accuracy, color=colour, marker=marker, markersize=4, label=label, clip_on=False)
        panel.set_xscale("log")
        panel.set_xlabel(f"directions {'kept' if mode == 'keep' else 'removed'}, k")
        panel.set_ylim(0, 104)
        finish(panel)
    figure.axes[0].set_ylabel("test accuracy, %")
    return with_legend(figure, f"{task}: the residual stream at {', '.join(result['curves'][0]['places'])}")


def attention_figure(prompt: dict[str, Any]) -> "Figure":
    """A panel a head, a row a layer; rows look, columns are looked at."""
    maps, words = prompt["maps"], prompt["words"]
    layers, heads = len(maps), len(maps[0])
    figure = new_figure(1.9 * heads + 0.7, 2.0 * layers + 0.4)
    panels = figure.subplots(layers, heads, squeeze=False)
    for layer, row in enumerate(panels):
        for head, panel in enumerate(row):
            panel.imshow(maps[layer][head], vmin=0, vmax=1, cmap="viridis")
            panel.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=8)
            panel.set_xticks(range(len(words)), words, fontsize=6)
            panel.set_yticks(range(len(words)), words, fontsize=6)
    figure.colorbar(panels[0, 0].images[0], ax=panels, label="attention", shrink=0.8)
    figure.supylabel("from", fontsize=9)
    figure.supxlabel("to", fontsize=9)
    return figure


def circles_figure(subject: Subject, pair: tuple[int, int] | None = None) -> "Figure":
    """Token embeddings on the components where they are most nearly a circle, coloured along it; untrained beside."""
    figure = new_figure(7.2, 3.4)
    panels = figure.subplots(1, 2)
    numbers = range(subject.config.task.vocab_size)
    for panel, parameters, label in zip(
        panels, (subject.parameters, subject.untrained), ("trained", "untrained"), strict=True
    ):
        places = components(parameters["token"]).cpu()
        first, second = pair or circle_pair(places)
        require(max(first, second) < places.shape[1], f"there are only {places.shape[1]} components: choose among them")
        turns = strongest_frequency(places[:, first])
        colours = [number * turns % len(numbers) for number in numbers]
        panel.scatter(places[:, first], places[:, second], c=colours, cmap="twilight", s=14)
        panel.set_title(f"{label}, strongest frequency {turns}", fontsize=9)
        panel.set_xlabel(f"component {first + 1}", fontsize=8)
        panel.set_ylabel(f"component {second + 1}", fontsize=8)
        panel.set_aspect("equal", adjustable="datalim")
        panel.tick_params(labelsize=7)
    figure.colorbar(panels[0].collections[0], ax=panels, label="number x frequency mod p", shrink=0.8)
    return figure
