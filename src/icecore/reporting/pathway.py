"""Refined or replaced: the table and the figure of a tracked run."""

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from icecore.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, YELLOW, finish, new_figure
from icecore.reporting.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Result = dict[str, Any]
REFINED, REPLACED = 0.75, 0.25  # a score of at least the first means refined, at most the second replaced
WORDS = ("refined", "between", "replaced", "cannot tell")
MARKERS = "osD^vXP*"
HUES = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, GREY, "#000000")


def verdict_of(score: float | None) -> str:
    if score is None:
        return "cannot tell"
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

    Refined or replaced if all decided measures agree, else partly refined.
    """
    causal = [name for name, is_causal in names_of(points).items() if is_causal]
    said = [verdict_of(median(points, name, "score")) for name in causal]
    counts = {word: said.count(word) for word in WORDS}
    telling = [word for word in said if word != "cannot tell"]
    if not telling:
        return "cannot tell", counts
    return (telling[0] if len(set(telling)) == 1 and telling[0] != "between" else "in part"), counts


def tables(result: Result) -> list[Table]:
    """Return one table: each measure between its references, its score and what it says."""
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
    return [Table(title_of(result), headings, rows, left, tuple(notes_of(result)), secondary=("seeds",))]


def title_of(result: Result) -> str:
    answer, counts = answer_of(at_end(result))
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    seeds = len(result["seeds"])
    return f"{result['task']}, {seeds} seed{'s' * (seeds > 1)}: {answer} (causal measures: {said})"


def notes_of(result: Result) -> list[str]:
    points = at_end(result)
    then, now = (statistics.median(point[key] for point in points) for key in ("accuracy_before", "accuracy"))
    lines = [
        f"accuracy {then:.4f} before (step {result['before']:,}), {now:.4f} after (step {result['steps'][-1]:,}), "
        f"{result['items']:,} test items; medians over seeds",
        f"refined: what an unchanged mechanism gives; replaced: what an unrelated network gives ({result['null']}); "
        f"score 1 is the first, 0 the second: refined from {REFINED}, replaced up to {REPLACED}",
        "* moves without any change of function too, so it counts only beside the others",
    ]
    if result["null"] != "the next seed":
        lines.append("one seed has no unrelated solution as its null: train several seeds")
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
    panels[1].set_xlabel(f"steps after the body began to train (at {result['before']:,})", fontsize=8)
    figure.suptitle(title_of(result), fontsize=9, x=0.01, ha="left")
    return figure


def draw_scores(panel: Any, result: Result, names: Sequence[str]) -> None:
    steps = [0, *(step - result["before"] for step in result["steps"])]
    for hue, marker, name in zip(HUES, MARKERS, names, strict=False):
        lines = [
            [1.0, *(point["measures"][name]["score"] for point in result["points"] if point["seed"] == seed)]
            for seed in result["seeds"]
        ]
        for line in lines:
            panel.plot(steps, as_numbers(line), color=hue, linewidth=0.5, alpha=0.5)
        middle = [median_of(each) for each in zip(*lines, strict=True)]
        panel.plot(
            steps,
            as_numbers(middle),
            color=hue,
            linewidth=1.4,
            marker=marker,
            markersize=5,
            fillstyle="none",
            label=name,
        )
    for level, word in ((REFINED, "refined"), (REPLACED, "replaced")):
        panel.axhline(level, color=GREY, linewidth=0.7, linestyle=":")
        place = {"xy": (1.0, level), "xycoords": ("axes fraction", "data"), "xytext": (0, 2), "ha": "right"}
        panel.annotate(word, **place, textcoords="offset points", fontsize=7, color=GREY)
    panel.set_ylim(-0.04, 1.06)
    panel.tick_params(labelsize=7)
    panel.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    finish(panel)


def median_of(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def as_numbers(values: Sequence[float | None]) -> list[float]:
    """Return the values with gaps as NaN, which break a line."""
    return [float("nan") if value is None else value for value in values]
