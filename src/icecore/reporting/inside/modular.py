"""Figure 3: circles in the embeddings of modular addition, and whether the logits use them."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from torch import Tensor

from icecore.analysis.circles import (
    circle_pair,
    circles,
    components,
    distance_irrelevance,
    gradient_symmetricity,
    strongest_frequency,
)
from icecore.drawing import BLUE, LIGHT_GREY, new_figure
from icecore.errors import InputError, require
from icecore.models import names_of_role, parameter_of_role
from icecore.reporting.chart import Axis, Chart, Dot, Line
from icecore.reporting.inside.context import Analysis, AnalysisContext, AnalyzedRun, Result
from icecore.reporting.table import Table
from icecore.tasks import ModularAddition

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUMBERS = ("circularity", "gradient_symmetricity", "distance_irrelevance", "distance_irrelevance_of_largest_wrong")


def measure(context: AnalysisContext) -> Result:
    run = context.run
    task, model = run.config.task, run.model
    if not isinstance(task, ModularAddition):
        raise InputError(f"modular needs a run of modular-addition, got one of {task.name}")

    def of(parameters: dict[str, Tensor]) -> Result:
        ring = asdict(circles(parameter_of_role(model, parameters, "token")[: task.modulus]))
        spectrum = ring.pop("spectrum")
        wrong = distance_irrelevance(model, parameters, task.modulus, "largest-wrong")
        return {
            **ring,
            "gradient_symmetricity": gradient_symmetricity(model, parameters, task.modulus),
            "distance_irrelevance": distance_irrelevance(model, parameters, task.modulus),
            "distance_irrelevance_of_largest_wrong": wrong,
            "spectrum": spectrum,
        }

    return {name: of(parameters) for name, parameters in run.both.items()}


def tables(result: Result) -> list[Table]:
    both = ("trained", "untrained")
    rows = [(name.replace("_", " "), *(f"{result[which][name]:.3f}" for which in both)) for name in NUMBERS]
    notes = [
        f"key frequencies, {which}: {', '.join(map(str, result[which]['key_frequencies'])) or 'none'}" for which in both
    ]
    return [Table("Modular addition", ("", *both), rows, left=("",), notes=tuple(notes))]


def figure(context: AnalysisContext, _result: Result) -> "Figure":
    """Draw token embeddings on the two components closest to a circle, coloured along it; trained beside untrained."""
    drawn = new_figure(7.2, 3.4)
    panels = drawn.subplots(1, 2)
    numbers = range(context.run.config.task.vocab_size)
    for panel, (label, parameters) in zip(panels, context.run.both.items(), strict=True):
        places = components(parameter_of_role(context.run.model, parameters, "token")).cpu()
        first, second = context.options.components or circle_pair(places)
        require(max(first, second) < places.shape[1], f"there are only {places.shape[1]} components: choose among them")
        turns = strongest_frequency(places[:, first])
        colours = [number * turns % len(numbers) for number in numbers]
        panel.scatter(places[:, first], places[:, second], c=colours, cmap="twilight", s=14)
        panel.set_title(f"{label}, strongest frequency {turns}", fontsize=9)
        panel.set_xlabel(f"component {first + 1}", fontsize=8)
        panel.set_ylabel(f"component {second + 1}", fontsize=8)
        panel.set_aspect("equal", adjustable="datalim")
        panel.tick_params(labelsize=7)
    drawn.colorbar(panels[0].collections[0], ax=panels, label="number x frequency mod p", shrink=0.8)
    task = context.run.config.task.name
    drawn.suptitle(f"{task}: token embeddings on two principal components", fontsize=9, x=0.01, ha="left")
    return drawn


def chart(result: Result) -> list[Chart]:
    """Chart the share of variance of each frequency of the embeddings."""
    lines = [
        Line(
            which,
            tuple(Dot(turns, (100 * share,)) for turns, share in enumerate(result[which]["spectrum"], start=1)),
            colour=colour,
            marker="",
        )
        for which, colour in (("trained", BLUE), ("untrained", LIGHT_GREY))
    ]
    return [
        Chart("Frequencies of the embeddings", Axis("frequency"), Axis("share of variance, %", least=0), tuple(lines))
    ]


def fits(run: AnalyzedRun) -> bool:
    is_known = isinstance(run.config.task, ModularAddition) and "embedding" in run.model.activations
    return is_known and len(names_of_role(run.model, "token")) == 1


ABOUT = (
    "Whether the embeddings of the numbers lie on circles: the share of variance in each frequency of the modulus. A "
    "few tall frequencies are circles."
)
MODULAR = Analysis("modular", ABOUT, measure, tables, figure, figure_name="circles", fits=fits, chart=chart)
