"""Refined or replaced: the table and the figure of a tracked run."""

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from icecore.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, YELLOW, finish, new_figure
from icecore.reporting.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Result = dict[str, Any]
# A score of at least the first exceeds, of the second is refined, of at most the third replaced.
EXCEEDS, REFINED, REPLACED = 1.25, 0.75, 0.25
WORDS = ("exceeds", "refined", "between", "replaced", "cannot tell")
NOTHING, LOST = "nothing to refine", "lost"  # the network was, or is, no better than a rule that needs no learning
HIGHEST = 1.5  # drawn score
MARKERS = "osD^vXP*"
HUES = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, GREY, "#000000")


def verdict_of(score: float | None) -> str:
    if score is None:
        return "cannot tell"
    if score >= EXCEEDS:
        return "exceeds"
    return "refined" if score >= REFINED else "replaced" if score <= REPLACED else "between"


def at_end(result: Result) -> list[Result]:
    """Return the last point of each seed."""
    return [point for point in result["points"] if point["step"] == result["steps"][-1]]


def names_of(points: Sequence[Result]) -> dict[str, bool]:
    """Return the measures that all points have, causal ones first, and whether each is causal."""
    every = [point["measures"] for point in points]
    names = {name: each["causal"] for name, each in every[0].items() if all(name in other for other in every)}
    return dict(sorted(names.items(), key=lambda item: not item[1]))


def median(points: Sequence[Result], name: str, key: str) -> float | None:
    values = [point["measures"][name][key] for point in points]
    known = [value for value in values if value is not None]
    return statistics.median(known) if len(known) > len(values) / 2 else None


def answer_of(points: Sequence[Result]) -> tuple[str, dict[str, int]]:
    """Return the joint verdict of the causal measures, and the count of each.

    Refined, replaced or exceeds if most of them can tell and all that can agree; else in part.
    """
    causal = [name for name, is_causal in names_of(points).items() if is_causal]
    said = [verdict_of(median(points, name, "score")) for name in causal]
    counts = {word: said.count(word) for word in WORDS}
    decided = {word for word in said if word != "cannot tell"}
    for when, word in (("before", NOTHING), ("after", LOST)):
        if 2 * sum(point["above_baseline"][when] for point in points) <= len(points):
            return word, counts
    if 2 * counts["cannot tell"] >= len(said):
        return "cannot tell", counts
    return (decided.pop() if len(decided) == 1 and decided != {"between"} else "in part"), counts


def tables(result: Result) -> list[Table]:
    """Return each measure between its references, its score and what it says; and the scores of heads."""
    points = at_end(result)
    beside = result.get("beside", [])
    headings = ("measure", "here", "refined", "replaced", "score", "seeds", "says", *(["beside"] if beside else []))
    rows = []
    for name, is_causal in names_of(points).items():
        numbers = [in_digits(median(points, name, key)) for key in ("here", "refined", "replaced")]
        score = median(points, name, "score")
        own = [in_digits(median(beside, name, "score"))] if beside else []
        label = name if is_causal else f"{name} *"
        rows.append((label, *numbers, in_digits(score), spread(points, name), verdict_of(score), *own))
    left = ("measure", "says")
    found = [Table(title_of(result), headings, rows, left, tuple(notes_of(result)), secondary=("seeds",))]
    return found + ([table_of_heads(points)] if "heads" in points[0] else [])


def table_of_heads(points: Sequence[Result]) -> Table:
    """Return what the heads attend to: the best head of each seed, before and after."""
    least, most = (statistics.median(each(map(each, point["heads"])) for point in points) for each in (min, max))
    rows = [
        ("same keys as before, most changed head", in_digits(1.0), in_digits(least), ""),
        ("same keys as before, least changed head", in_digits(1.0), in_digits(most), ""),
    ]
    for name in points[0]["head_scores"]:
        scores = [point["head_scores"][name] for point in points]
        then, now = (statistics.median(max(map(max, each[when])) for each in scores) for when in ("before", "after"))
        rows.append((f"{name}, best head", in_digits(then), in_digits(now), in_digits(scores[0]["uniform"])))
    title = "Attention, medians over seeds"
    return Table(title, ("attention", "before", "after", "uniform head"), rows, left=("attention",))


def title_of(result: Result) -> str:
    points, baseline = at_end(result), result["baseline"]["value"]
    answer, counts = answer_of(points)
    seeds = len(result["seeds"])
    title = f"{result['task']}, {seeds} seed{'s' * (seeds > 1)}: {answer}"
    if answer in (NOTHING, LOST):
        when = {NOTHING: "before", LOST: "after"}[answer]
        return f"{title} ({result['metric']} {value_of(result, when):.3f} {when}, baseline {baseline:.3f})"
    return f"{title} (causal measures: {', '.join(f'{count} {word}' for word, count in counts.items() if count)})"


def value_of(result: Result, when: str) -> float:
    """Return the median over seeds of the accuracy, or of the loss of a task that is judged by it."""
    key = result["metric"] + ("_before" if when == "before" else "")
    return statistics.median(point[key] for point in at_end(result))


def notes_of(result: Result) -> list[str]:
    points, rule = at_end(result), result["baseline"]["rule"].replace("_", " ")
    controls = ", ".join(
        f"{name} {statistics.median(point['controls'][name] for point in points):.3f}"
        for name in points[0]["controls"]
        if all(name in point["controls"] for point in points)
    )
    lines = [
        f"{result['metric']} {value_of(result, 'before'):.4f} before (step {result['before']:,}), "
        f"{value_of(result, 'after'):.4f} after (step {result['steps'][-1]:,}), baseline {rule} "
        f"{result['baseline']['value']:.4f}; {result['items']:,} test items; medians over seeds",
        "refined: what an unchanged mechanism gives; replaced: what an unrelated network gives "
        f"({result['null']}), or the baseline if that is better; score 1 is the first, 0 the second: refined from "
        f"{REFINED}, replaced up to {REPLACED}, exceeds the old mechanism from {EXCEEDS}",
        f"controls of the first two rows: {controls}",
        "* moves without any change of function too, so it counts only beside the others",
    ]
    if "re-drawn" in result["null"]:
        lines.append(
            "a re-drawn body solves nothing, so the loss barrier may not tell: with more seeds, or without --shift, "
            "the null is another solution"
        )
    if "beside" in result:
        lines.append("beside: the score of full training from the same initial weights")
    return lines


def spread(points: Sequence[Result], name: str) -> str:
    """Return the range of the scores over seeds."""
    scores = [score for point in points if (score := point["measures"][name]["score"]) is not None]
    return f"{min(scores):.2f} to {max(scores):.2f}" if len(scores) > 1 else ""


def in_digits(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def draw(result: Result) -> "Figure":
    """Draw each measure's score against the step, causal ones above; every seed is a thin line."""
    figure = new_figure(7.2, 5.2)
    panels = figure.subplots(2, 1, sharex=True)
    names = names_of(at_end(result))
    for panel, causal in zip(panels, (True, False), strict=True):
        draw_scores(panel, result, [name for name, is_causal in names.items() if is_causal is causal])
        panel.set_ylabel("score: causal" if causal else "score: others", fontsize=8)
    filled = "; filled: full training from the same initial weights" if "beside" in result else ""
    panels[1].set_xlabel(f"steps after the body began to train (at {result['before']:,}){filled}", fontsize=8)
    figure.suptitle(title_of(result), fontsize=9, x=0.01, ha="left")
    return figure


def draw_scores(panel: Any, result: Result, names: Sequence[str]) -> None:
    steps = [0, *(step - result["before"] for step in result["steps"])]
    for hue, marker, name in zip(HUES, MARKERS, names, strict=False):
        style: dict[str, Any] = {"color": hue, "marker": marker, "markersize": 5, "clip_on": False}
        lines = [line_of(result, seed, name) for seed in result["seeds"]]
        for line in lines:
            panel.plot(steps, as_numbers(line), color=hue, linewidth=0.5, alpha=0.5)
        middle = as_numbers([median_of(each) for each in zip(*lines, strict=True)])
        panel.plot(steps, middle, linewidth=1.4, fillstyle="none", label=name, **style)
        if "beside" in result:
            panel.plot(steps[-1:], as_numbers([median(result["beside"], name, "score")]), linestyle="none", **style)
    for level, word in ((EXCEEDS, "exceeds"), (REFINED, "refined"), (REPLACED, "replaced")):
        panel.axhline(level, color=GREY, linewidth=0.7, linestyle=":")
        place = {"xy": (1.0, level), "xycoords": ("axes fraction", "data"), "xytext": (0, 2), "ha": "right"}
        panel.annotate(word, **place, textcoords="offset points", fontsize=7, color=GREY)
    panel.set_ylim(-0.04, HIGHEST + 0.04)
    panel.tick_params(labelsize=7)
    panel.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    finish(panel)


def line_of(result: Result, seed: int, name: str) -> list[float | None]:
    """Return a seed's scores; before the body trained it is 1, unless nothing can be told."""
    found = [point["measures"][name]["score"] for point in result["points"] if point["seed"] == seed]
    return [None if found[0] is None else 1.0, *found]


def median_of(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def as_numbers(values: Sequence[float | None]) -> list[float]:
    """Return the values within the panel, with gaps as NaN, which break a line."""
    return [float("nan") if value is None else min(HIGHEST, max(0.0, value)) for value in values]
