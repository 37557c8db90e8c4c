"""Curves of runs: what was logged on the way, per seed; thinned for a page, as a figure with seeds as a band."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icecore.drawing import BLUE, GREEN, ORANGE, PURPLE, SKY, YELLOW, finished, new_figure
from icecore.store.record_schema import is_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Series = dict[str, dict[str, Any]]  # by measured number: steps, and a list of values per seed
DIGITS = 4
HUES = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW)
DASHES = ("-", "--", ":", "-.")
MOST_DRAWN = len(HUES) * len(DASHES)  # runs of a figure
LOG_FROM = 20.0  # a measured number whose largest value is this many times its smallest gets a logarithmic axis
MOST_DRAWN = 1e100  # beyond it, the span of an axis is no number
SHARES = ("accuracy", "exact_match")  # between 0 and 1


@dataclass(frozen=True)
class RunCurves:
    """Curves of one run: the name of its folder, and in words what it trained."""

    name: str
    seeds: tuple[int, ...]
    series: Series
    label: str = ""  # such as "needle, Random 64"

    @property
    def heading(self) -> str:
        return f"{self.label} ({self.name.rpartition('/')[2]})" if self.label else self.name


def series_of(rows: Iterable[dict[str, Any]], seeds: int, most: int | None = None) -> Series:
    """Return each number that was logged for every seed, probes too; with `most`, at no more steps than that.

    `items` are the test items that some points are of, where there was no time for all.
    """
    found: dict[str, list[tuple[int, list[float]]]] = {}
    samples: dict[str, int] = {}
    for row in rows:
        probes = row.get("probes")
        for name, values in {**row, **(probes if isinstance(probes, dict) else {})}.items():
            if isinstance(values, list) and len(values) == seeds and all(map(is_drawable, values)):
                found.setdefault(name, []).append((row["step"], values))
                if name != "loss" and isinstance(row.get("items"), int):
                    samples[name] = row["items"]
    series = {name: thinned(sorted(pairs, key=lambda pair: pair[0]), seeds, most) for name, pairs in found.items()}
    return {name: one | ({"items": samples[name]} if name in samples else {}) for name, one in series.items()}


def is_drawable(value: Any) -> bool:
    return is_number(value) and abs(value) <= MOST_DRAWN


def thinned(pairs: Sequence[tuple[int, list[float]]], seeds: int, most: int | None) -> dict[str, Any]:
    """Return every k-th row and the last one: measured values, none of them averaged."""
    stride = 1 if most is None else max(1, math.ceil(len(pairs) / most))
    kept = [pair for index, pair in enumerate(pairs) if (len(pairs) - 1 - index) % stride == 0]
    rounded = short if most is not None else float
    return {
        "steps": [step for step, _ in kept],
        "values": [[rounded(values[seed]) for _, values in kept] for seed in range(seeds)],
        "every": stride,
    }


def short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def band_of(series: dict[str, Any]) -> tuple[list[float], list[float], list[float]]:
    """Return the least, the median and the largest value of the seeds at each step."""
    columns = list(zip(*series["values"], strict=True))
    return list(map(min, columns)), list(map(statistics.median, columns)), list(map(max, columns))


def is_logarithmic(name: str, values: Sequence[float]) -> bool:
    """Tell whether values span so much that a linear axis would hide the small ones."""
    return name not in SHARES and min(values) > 0 and max(values) > LOG_FROM * min(values)


def measures_of(runs: Sequence[RunCurves]) -> list[str]:
    """Return the measured numbers of all runs, in the order in which they were logged."""
    return list(dict.fromkeys(name for run in runs for name in run.series))


def look_of(index: int) -> tuple[str, str]:
    """Return the hue and the dashes of a run."""
    return HUES[index % len(HUES)], DASHES[index // len(HUES) % len(DASHES)]


def draw_runs(runs: Sequence[RunCurves], measures: Sequence[str], is_log: bool | None = None) -> "Figure":
    """Draw a panel per measured number and a hue per run: the median over seeds, and their range as a band."""
    figure = new_figure(3.7 * max(2, len(measures)), 3.2)
    panels = figure.subplots(1, len(measures), squeeze=False, sharex=True)[0]
    labels = Counter(run.label for run in runs)
    for panel, measure in zip(panels, measures, strict=True):
        drawn = [(run, *look_of(index)) for index, run in enumerate(runs) if measure in run.series]
        values = [value for run, *_ in drawn for seed in run.series[measure]["values"] for value in seed]
        for run, colour, dashes in drawn:
            steps, (least, median, most) = run.series[measure]["steps"], band_of(run.series[measure])
            panel.plot(
                steps,
                median,
                color=colour,
                linestyle=dashes,
                linewidth=1.4,
                label=run.label if labels[run.label] == 1 and run.label else run.heading,
                marker="." if len(steps) < 20 else "",
            )
            if len(run.seeds) > 1:
                panel.fill_between(steps, least, most, color=colour, alpha=0.2, linewidth=0)
        if is_logarithmic(measure, values) if is_log is None else is_log:
            panel.set_yscale("log")
        if measure in SHARES:
            panel.set_ylim(0, 1.04)
        panel.set_xlabel("step", fontsize=8)
        panel.set_ylabel(measure.replace("_", " "), fontsize=8)
    bands = "; band: range of the seeds" if any(len(run.seeds) > 1 for run in runs) else ""
    return finished(figure, f"Medians over seeds{bands}" if bands else "Curves")
