"""Tables 4, 5 and 7: variance of the residual stream within its top 10 directions and neurons."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from icecore.analysis.moments import explained, streams_of
from icecore.drawing import BLUE, LIGHT_GREY, finish, new_figure, with_legend
from icecore.reporting.chart import Axis, Chart, Dot, Line
from icecore.reporting.inside.context import Analysis, AnalysisContext, Result, has_streams, percent
from icecore.reporting.table import Table
from icecore.sweeps.variance import TOP

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def measure(context: AnalysisContext) -> Result:
    """Return the shares of variance within the top 10 directions and neurons, at each activation."""
    trained, untrained = context.moments
    places = streams_of(context.run.model)
    return {
        "positions": context.options.positions,
        "activations": trained[places[0]].count,  # the same at each
        "trained": {place: asdict(explained(trained[place], TOP)) for place in places},
        "untrained": {place: asdict(explained(untrained[place], TOP)) for place in places},
    }


def tables(result: Result) -> list[Table]:
    rows = []
    for place, trained in result["trained"].items():
        untrained = result["untrained"][place]
        each = (trained["directions"], untrained["directions"], trained["neurons"], untrained["neurons"])
        rows.append((place, *map(percent, each)))
    headings = ("activation", "directions", "untrained", "neurons", "untrained")
    title = f"% of variance within the top {TOP}, over {result['activations']:,} activations ({result['positions']})"
    return [Table(title, headings, rows, left=("activation",))]


def figure(context: AnalysisContext, result: Result) -> "Figure":
    """Draw the shares at each activation, trained beside untrained."""
    drawn = new_figure(7.2, 3.0)
    places = list(result["trained"])
    for panel, kind in zip(drawn.subplots(1, 2, sharey=True), ("directions", "neurons"), strict=True):
        for shift, (which, colour) in zip((-0.2, 0.2), (("trained", BLUE), ("untrained", LIGHT_GREY)), strict=True):
            heights = [100 * result[which][place][kind] for place in places]
            panel.bar([index + shift for index in range(len(places))], heights, 0.38, color=colour, label=which)
        panel.set_xticks(range(len(places)), [place.replace(".", "\n") for place in places], fontsize=8)
        panel.set_title(f"top {TOP} {kind}", fontsize=9, loc="left")
        panel.set_ylim(0, 100)
        finish(panel)
    drawn.axes[0].set_ylabel("share of variance, %")
    task = context.run.config.task.name
    return with_legend(drawn, f"{task}: variance of the residual stream ({result['positions']} positions)")


def chart(result: Result) -> list[Chart]:
    """Chart the same: a panel per kind, bars of the trained beside the untrained model."""
    lines = [
        Line(
            which,
            tuple(Dot(place, (100 * shares[kind],)) for place, shares in result[which].items()),
            f"top {TOP} {kind}",
            colour,
        )
        for kind in ("directions", "neurons")
        for which, colour in (("trained", BLUE), ("untrained", LIGHT_GREY))
    ]
    title = f"Variance of the residual stream ({result['positions']} positions)"
    y = Axis("share of variance, %", least=0)  # each panel its own: ten of many neurons hold little
    return [Chart(title, Axis("", "category"), y, tuple(lines), kind="bar")]


ABOUT = (
    f"How much of the residual stream's variance lies in its {TOP} strongest directions, and in its {TOP} strongest "
    "neurons. block0.stream is the residual stream after the first block, final the one after the last norm."
)
VARIANCE = Analysis("variance", ABOUT, measure, tables, figure, fits=has_streams, chart=chart)
