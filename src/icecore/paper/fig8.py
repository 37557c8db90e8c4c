"""Figure 8: accuracy during memorization, from the runs of Table 3."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from icecore.drawing import finished, new_figure, style_of
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment, Figure
from icecore.paper.table3 import TABLE3, runs_with
from icecore.reporting.chart import Axis, Chart, Dot, line_of
from icecore.reporting.claim import Claim, Source, median_of, strictly_judged, verdict_of
from icecore.reporting.verdict import Null
from icecore.store.records import key_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

CONVERGED = (1.0, 'the paper says that both "have converged", without a number: the last tenth may add one point')
PRESETS = ("released", "paper", "reconstructed")  # in the order of their hues


def claims(experiment: Experiment, evidence: Evidence) -> list[Claim]:
    """Return claims on the accuracy that the last tenth of training adds, in points."""
    most, reason = CONVERGED
    found: list[Claim] = []
    for cell in experiment.of(evidence):
        source = Source.of(cell.name, runs_with("curve", cell, evidence), lambda run: last_tenth(run["curve"]))
        ours = median_of(source.values)
        verdict = verdict_of(ours, ours is not None and abs(ours) <= most)
        place = (cell.name.column, "points in the last tenth")
        found.append(
            Claim(
                experiment.name,
                ", ".join(place),
                None,
                ours,
                source.values,
                None,
                f"at most {most:g}",
                reason,
                verdict,
                digits=2,
                place=place,
                allowed=(-most, most),
                null=Null("no learning", 0.0, True),
                sources=(source,) if source.values else (),
            )
        )
    return found if evidence.scale == "laptop" else strictly_judged(found)


def last_tenth(curve: dict[str, list[float]]) -> float:
    """Return the final accuracy minus the last one measured within 90 % of the steps, in points."""
    steps, accuracy = curve["steps"], curve["accuracy"]
    before = [value for step, value in zip(steps, accuracy, strict=True) if step <= 0.9 * steps[-1]]
    return 100 * (accuracy[-1] - (before[-1] if before else 0.0))


@dataclass(frozen=True)
class MemorizationCurve:
    """Accuracy in % during training, of one kind and preset; one tuple per seed."""

    kind: str
    preset: str
    steps: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]
    runs: tuple[str, ...] = ()  # the keys of the values' runs


def curves_of(evidence: Evidence) -> list[MemorizationCurve]:
    """Return the recorded curves of every preset with its own settings."""
    found: list[MemorizationCurve] = []
    seen: set[str] = set()
    for preset in PRESETS:
        for cell in TABLE3.of(replace(evidence, preset=preset)):
            if cell.setting in seen:
                continue
            seen.add(cell.setting)
            runs = runs_with("curve", cell, evidence)
            runs = [run for run in runs if run["curve"]["steps"] == runs[0]["curve"]["steps"]]
            if runs:
                values = tuple(tuple(100 * value for value in run["curve"]["accuracy"]) for run in runs)
                steps, keys = tuple(runs[0]["curve"]["steps"]), tuple(map(key_of, runs))
                found.append(MemorizationCurve(cell.name.kind, preset, steps, values, keys))
    return found


def draw_curves(curves: Sequence[MemorizationCurve], title: str) -> "Drawn":
    """Draw medians as lines and the range of the seeds as a band."""
    figure = new_figure(5.4, 3.4)
    panel = figure.subplots()
    for curve in curves:
        middle, least, most = (
            [pick(each) for each in zip(*curve.values, strict=True)] for pick in (statistics.median, min, max)
        )
        style = style_of(curve.kind, PRESETS.index(curve.preset))
        label = f"{curve.kind}, preset {curve.preset}"
        panel.plot(curve.steps, middle, linewidth=1.4, markersize=4, markevery=0.1, label=label, **style)
        panel.fill_between(curve.steps, least, most, color=style["color"], alpha=0.2, linewidth=0)
    panel.set_xlabel("step", fontsize=8)
    panel.set_ylabel("accuracy on all items, %", fontsize=8)
    panel.set_xlim(left=0)
    panel.set_ylim(0, 104)
    return finished(figure, title)


def chart_curves(curves: Sequence[MemorizationCurve], title: str) -> Chart:
    """Chart the same: medians and the range of the seeds."""
    lines = [
        line_of(
            f"{curve.kind}, preset {curve.preset}",
            curve.kind,
            PRESETS.index(curve.preset),
            (
                Dot(step, each, curve.runs)
                for step, each in zip(curve.steps, zip(*curve.values, strict=True), strict=True)
            ),
        )
        for curve in curves
    ]
    return Chart(title, Axis("step"), Axis("accuracy on all items, %", least=0, most=100), tuple(lines), kind="band")


FIG8 = Experiment(
    "fig8",
    "accuracy during memorization",
    TABLE3.cells,
    claims,
    {"fig8": Figure("Figure 8: accuracy during memorization", curves_of, draw_curves, chart_curves)},
)
