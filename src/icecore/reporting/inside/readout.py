"""Table 2's U only, solved: the best unembedding for the untrained body."""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from icecore.analysis.moments import training_items
from icecore.analysis.readout import logistic_readout, ridge_readout
from icecore.drawing import BLUE, DOTS, GREY, YELLOW, finish, new_figure, with_legend
from icecore.reporting.inside.context import Analysis, AnalysisContext, AnalyzedRun, Result, percent
from icecore.reporting.table import Table
from icecore.tasks import Language

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAMPLE = 40_000  # training items for the solvers: all of a finite set of the paper's size


def measure(context: AnalysisContext) -> Result:
    model, untrained, task = context.run.model, context.run.untrained, context.run.config.task
    items = training_items(task, SAMPLE, "readout"), task.test_set()
    each = [
        ridge_readout(model, untrained, task.vocab_size, *items),
        logistic_readout(model, untrained, task.vocab_size, *items, partial(context.on_progress, "readout")),
    ]
    return {"readouts": [asdict(one) for one in each], "baselines": task.baselines()}


def tables(result: Result) -> list[Table]:
    rows = [
        (one["kind"], percent(one["train_accuracy"]), percent(one["test_accuracy"]), f"{one['items']:,}")
        for one in result["readouts"]
    ]
    title = "The unembedding alone on the untrained body, solved; accuracy in %"
    words = [f"{name.replace('_', ' ')} {percent(value)}" for name, value in result["baselines"].items()]
    baselines = f"baselines: {', '.join(words)}"
    return [Table(title, ("", "train", "test", "scored positions"), rows, left=("",), notes=(baselines,))]


def figure(context: AnalysisContext, result: Result) -> "Figure":
    """Draw both readouts beside the baseline."""
    drawn = new_figure(4.6, 3.0)
    panel = drawn.subplots()
    kinds = [one["kind"] for one in result["readouts"]]
    for shift, (which, colour) in zip((-0.2, 0.2), (("train", YELLOW), ("test", BLUE)), strict=True):
        heights = [100 * one[f"{which}_accuracy"] for one in result["readouts"]]
        panel.bar([index + shift for index in range(len(kinds))], heights, 0.38, color=colour, label=which)
    baseline = 100 * max(result["baselines"].values())
    panel.axhline(baseline, color=GREY, linewidth=1, linestyle=DOTS, label="baseline")
    panel.set_xticks(range(len(kinds)), kinds)
    panel.set_ylim(0, 104)
    panel.set_ylabel("accuracy, %")
    finish(panel)
    return with_legend(drawn, f"{context.run.config.task.name}: the unembedding alone, solved")


def fits(run: AnalyzedRun) -> bool:
    return not isinstance(run.config.task, Language)  # it has too many windows


ABOUT = "The best unembedding for the untrained body, found by solvers instead of training."
READOUT = Analysis("readout", ABOUT, measure, tables, figure, fits=fits)
