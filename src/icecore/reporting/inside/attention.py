"""Figure 2: attention maps of a prompt; for needle, both steps of induction."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from icecore.analysis.attention import Induction, attention_maps, induction_scores, maps_of
from icecore.drawing import new_figure, plain
from icecore.errors import InputError
from icecore.reporting.chart import Maps
from icecore.reporting.inside.context import Analysis, AnalysisContext, AnalyzedRun, Result
from icecore.reporting.table import Table
from icecore.tasks import Needle

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROMPT = "a 1 b 2 c 3 d 4 b"  # SOURCE: Figure 2
STEPS = ("value_to_marker", "query_to_value")


def measure(context: AnalysisContext) -> Result:
    """Return the attention maps of a prompt; for needle also the scores of both steps of induction."""
    run, prompt = context.run, context.options.prompt
    task = run.config.task
    maps_of(run.model)  # raises if there are none, before a prompt is asked for
    found: Result = {}
    if isinstance(task, Needle):
        test = task.test_set()[: context.options.items]
        found["items"] = len(test)
        for half, (name, parameters) in enumerate(run.both.items()):
            parts = context.in_chunks("attention", test, half)
            scores = induction_scores(run.model, parameters, task, parts)
            found[name] = {
                "value_to_marker": scores.value_to_marker.tolist(),
                "query_to_value": scores.query_to_value.tolist(),
                "best_value_to_marker": asdict(Induction.best(scores.value_to_marker)),
                "best_query_to_value": asdict(Induction.best(scores.query_to_value)),
                "uniform": [scores.value_to_marker_uniform, scores.query_to_value_uniform],
            }
    if prompt is None:
        prompt = PROMPT if isinstance(task, Needle) and task.max_pairs >= 4 else None
        if prompt is None and not found:
            (item,) = task.items(task.test_set()[:1])
            example = " ".join(task.words(item.prompt))
            raise InputError(f"attention of {task.name} needs a prompt, such as --prompt '{example}'")
    if prompt is not None:
        tokens = task.read(prompt)
        maps, before = (attention_maps(run.model, each, tokens).tolist() for each in run.both.values())
        found["prompt"] = {"text": prompt, "words": task.words(tokens), "maps": maps, "untrained_maps": before}
    return found


def tables(result: Result) -> list[Table]:
    rows = []
    for name in ("trained", "untrained"):
        for index, step in enumerate(STEPS if name in result else ()):
            head, uniform = result[name][f"best_{step}"], result[name]["uniform"][index]
            where = f"layer {head['layer']}, head {head['head']}"
            rows.append((name, step.replace("_", " "), where, f"{head['score']:.3f}", f"{uniform:.3f}"))
    title = "Heads with the most attention from each value to its marker, and from the query to its value"
    left = ("", "attention", "best head")
    of_needle = [Table(title, (*left, "mean", "uniform"), rows, left)] if rows else []
    return [*of_needle, *([prompt_table(result["prompt"])] if "prompt" in result else [])]


def prompt_table(prompt: Result) -> Table:
    words, rows = prompt["words"], []
    for layer, heads in enumerate(prompt["maps"], start=1):
        for head, rows_of_head in enumerate(heads, start=1):
            at = max(range(len(words)), key=lambda index, last=rows_of_head[-1]: last[index])
            rows.append((f"layer {layer}, head {head}", words[at], str(at + 1), f"{rows_of_head[-1][at]:.3f}"))
    title = f"Strongest attention from the last token of '{' '.join(words)}'"
    return Table(title, ("", "to", "position", "attention"), rows, left=("", "to"))


def figure(context: AnalysisContext, result: Result) -> "Figure | None":
    """Draw a panel per head and a row per layer, trained above untrained; within a map, rows attend to columns."""
    if "prompt" not in result:
        return None
    prompt, words = result["prompt"], result["prompt"]["words"]
    labels = list(map(plain, words))
    rows = [
        (f"{which}, layer {layer}", heads)
        for which, key in (("trained", "maps"), ("untrained", "untrained_maps"))
        for layer, heads in enumerate(prompt[key], start=1)
    ]
    drawn = new_figure(1.9 * len(rows[0][1]) + 0.7, 2.0 * len(rows) + 0.7)
    panels = drawn.subplots(len(rows), len(rows[0][1]), squeeze=False)
    for (label, heads), row in zip(rows, panels, strict=True):
        for head, (attention, panel) in enumerate(zip(heads, row, strict=True), start=1):
            panel.imshow(attention, vmin=0, vmax=1, cmap="viridis")
            panel.set_title(f"{label}, head {head}", fontsize=7)
            panel.set_xticks(range(len(words)), labels, fontsize=6)
            panel.set_yticks(range(len(words)), labels, fontsize=6)
    drawn.colorbar(panels[0, 0].images[0], ax=panels, label="attention", shrink=0.8)
    drawn.suptitle(f"{context.run.config.task.name}: attention on '{prompt['text']}'", fontsize=9)
    drawn.supylabel("from", fontsize=9)
    drawn.supxlabel("to", fontsize=9)
    return drawn


def chart(result: Result) -> list[Maps]:
    """Return the maps of the prompt, trained and untrained."""
    if "prompt" not in result:
        return []
    prompt = result["prompt"]
    words = tuple(prompt["words"])
    return [
        Maps(
            f"Attention on '{prompt['text']}', {which}",
            words,
            {
                f"layer {layer}, head {head}": rows
                for layer, heads in enumerate(prompt[key], start=1)
                for head, rows in enumerate(heads, start=1)
            },
        )
        for which, key in (("trained", "maps"), ("untrained", "untrained_maps"))
        if key in prompt
    ]


def fits(run: AnalyzedRun) -> bool:
    has_maps = any(name.endswith(".attention") for name in run.model.activations)
    return isinstance(run.config.task, Needle) and has_maps


ABOUT = (
    "What each head attends to. On needle, induction takes two steps: from a value back to its marker, then from the "
    "query to the value that is asked for."
)
ATTENTION = Analysis("attention", ABOUT, measure, tables, figure, fits=fits, chart=chart)
