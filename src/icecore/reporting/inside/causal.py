"""Accuracy when the residual stream keeps or loses its top k directions: are few enough?"""

import itertools
from dataclasses import asdict
from typing import TYPE_CHECKING

from icecore.analysis.subspaces import BASES, accuracy_curve, counts_up_to
from icecore.drawing import BLUE, GREEN, LIGHT_GREY, YELLOW, finish, label_counts, new_figure, with_legend
from icecore.reporting.chart import Axis, Chart, Dot, Line
from icecore.reporting.inside.context import Analysis, AnalysisContext, Result, has_streams, percent
from icecore.reporting.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = {
    "directions": ("top directions", BLUE, "o"),
    "neurons": ("top neurons", YELLOW, "s"),
    "untrained": ("untrained model's directions", GREEN, "^"),
    "random": ("random directions", LIGHT_GREY, "x"),
}
PANELS = {"keep": "kept", "remove": "removed"}  # by mode


def measure(context: AnalysisContext) -> Result:
    """Return the accuracy when the residual stream, at one activation or at all, keeps or loses k directions."""
    run, activation = context.run, context.options.activation
    trained, untrained = context.moments
    task = run.config.task
    test = task.test_set()[: context.options.items]
    counts = counts_up_to(run.model.width)
    done = itertools.count(1)

    def on_count() -> None:
        context.on_progress("causal", next(done), 2 * len(BASES) * len(counts))

    curves = [
        accuracy_curve(
            run.model,
            run.parameters,
            task,
            test,
            trained,
            untrained,
            counts,
            basis,
            mode,
            [activation] if activation else [],
            on_count,
        )
        for mode in ("keep", "remove")
        for basis in BASES
    ]
    return {"items": len(test), "curves": [asdict(curve) for curve in curves]}


def tables(result: Result) -> list[Table]:
    curves = result["curves"]
    title = (
        f"% accuracy on {result['items']} test items when the residual stream keeps or loses k directions "
        f"at {', '.join(curves[0]['places'])}"
    )
    left = ("", "k =")
    rows = [(curve["mode"], curve["basis"], *map(percent, curve["accuracy"])) for curve in curves]
    (kept,) = [curve for curve in curves if (curve["mode"], curve["basis"]) == ("keep", "directions")]
    shuffled = f"against shuffled answers, directions kept: {' '.join(map(percent, kept['shuffled']))}"
    return [Table(title, (*left, *map(str, curves[0]["counts"])), rows, left, (shuffled,))]


def figure(context: AnalysisContext, result: Result) -> "Figure":
    drawn = new_figure(7.2, 3.2)
    for panel, mode in zip(drawn.subplots(1, 2, sharey=True), ("keep", "remove"), strict=True):
        for curve in result["curves"]:
            if curve["mode"] != mode:
                continue
            label, colour, marker = LINES[curve["basis"]]
            accuracy = [100 * value for value in curve["accuracy"]]
            panel.plot(curve["counts"], accuracy, color=colour, marker=marker, markersize=4, label=label, clip_on=False)
        label_counts(panel, result["curves"][0]["counts"][-1])
        panel.set_xlabel(f"directions {PANELS[mode]}, k")
        panel.set_ylim(0, 104)
        finish(panel)
    drawn.axes[0].set_ylabel("test accuracy, %")
    places = ", ".join(result["curves"][0]["places"])
    return with_legend(drawn, f"{context.run.config.task.name}: the residual stream at {places}")


def chart(result: Result) -> list[Chart]:
    """Chart the same: a panel per mode, a line per basis."""
    lines = []
    for curve in result["curves"]:
        label, colour, marker = LINES[curve["basis"]]
        dots = tuple(Dot(k, (100 * each,)) for k, each in zip(curve["counts"], curve["accuracy"], strict=True))
        lines.append(Line(label, dots, f"directions {PANELS[curve['mode']]}", colour, marker))
    title = f"The residual stream at {', '.join(result['curves'][0]['places'])}"
    return [Chart(title, Axis("k", "log"), Axis("test accuracy, %", least=0, most=100), tuple(lines))]


ABOUT = (
    "The test accuracy when the residual stream keeps only its top k directions, or loses them: are few directions "
    "enough? block0.stream is the residual stream after the first block."
)
CAUSAL = Analysis("causal", ABOUT, measure, tables, figure, fits=has_streams, chart=chart)
