"""Records of the ladder: the smallest sufficient width at each rung, beside its coordinates."""

from dataclasses import dataclass, field, replace
from typing import Any

from icecore.paper.evidence import Evidence
from icecore.paper.ladder_cells import cells_by_place
from icecore.paper.ladder_grid import KINDS, RUNGS, TARGET, WIDTHS, Rung
from icecore.reporting.claim import Source, percentage
from icecore.reporting.thresholds import Threshold
from icecore.store.records import Record
from icecore.sweeps.names import TRAINABLE_OF

Runs = dict[tuple[Rung, str], dict[int, list[Record]]]  # by rung and kind, then by width
UNKNOWN = float("inf")  # a coordinate that theory does not give comes last


@dataclass(frozen=True)
class Step:
    """A rung that was run, at least in part."""

    rung: Rung
    coordinates: dict[str, Any]
    baseline: tuple[str, float]  # the strongest rule that needs no learning
    thresholds: dict[str, Threshold]  # by kind
    rates: dict[str, tuple[float, ...]]  # by kind, those of its runs
    sources: dict[str, tuple[Source, ...]] = field(default_factory=dict)  # by kind, a cell per width

    @property
    def order(self) -> tuple[float, ...]:
        """Return its coordinates, the one that should decide first."""
        return tuple(self.coordinate(name) for name in ("sensitivity", "rounds", "symbols"))

    def coordinate(self, name: str) -> float:
        value = self.coordinates.get(name)
        return UNKNOWN if value is None else float(value)

    def number(self, kind: str) -> int | None:
        return self.thresholds[kind].number


def runs_by_place(evidence: Evidence) -> Runs:
    """Return the recorded runs of each rung and kind by width, at the rates that were chosen.

    Cells without a record of their task and size are passed over: their settings need torch.
    """
    recorded = {size_of(run) for run in evidence.all_runs}
    found: Runs = {}
    for (width, rung, kind), cell in cells_by_place(evidence.scale).items():
        if (rung.task, width, rung.layers, TRAINABLE_OF[kind]) in recorded:
            rate = evidence.rates.get(cell.setting)
            runs = evidence.runs(cell if rate is None else replace(cell, rate=rate))
            if runs:
                found.setdefault((rung, kind), {})[width] = runs
    return found


def size_of(run: Record) -> tuple[Any, ...]:
    config = run["config"]
    settings = config["model"]["settings"]
    return config["task"]["name"], settings.get("width"), settings.get("layers"), config.get("trainable")


def steps_of(evidence: Evidence) -> list[Step]:
    """Return the rungs that were run, in the order of their coordinates."""
    by_place = runs_by_place(evidence)
    found = []
    for rung in RUNGS[evidence.scale]:
        here = {kind: by_place.get((rung, kind), {}) for kind in KINDS}
        each = [run for by_width in here.values() for runs in by_width.values() for run in runs]
        if each:
            coordinates = next((run["coordinates"] for run in each if "coordinates" in run), {})
            thresholds = {kind: threshold_of(by_width, evidence.scale) for kind, by_width in here.items()}
            rates = {kind: rates_of(by_width) for kind, by_width in here.items()}
            sources = {kind: sources_of(rung, kind, by_width) for kind, by_width in here.items()}
            found.append(Step(rung, coordinates, strongest_baseline(each), thresholds, rates, sources))
    return sorted(found, key=lambda step: step.order)


def rates_of(by_width: dict[int, list[Record]]) -> tuple[float, ...]:
    return tuple(sorted({float(runs[0]["config"]["optimization"]["lr"]) for runs in by_width.values()}))


def sources_of(rung: Rung, kind: str, by_width: dict[int, list[Record]]) -> tuple[Source, ...]:
    return tuple(Source.of(rung.name(kind, width), runs, percentage) for width, runs in sorted(by_width.items()))


def threshold_of(by_width: dict[int, list[Record]], scale: str) -> Threshold:
    accuracies = {width: {run["seed"]: 100 * run["accuracy"] for run in runs} for width, runs in by_width.items()}
    return Threshold(accuracies, WIDTHS[scale], TARGET)


def strongest_baseline(runs: list[Record]) -> tuple[str, float]:
    """Return the best of the task's own baselines and of its strongest lazy rule."""
    known = {name: value for run in runs for name, value in {**run.get("lazy_rule", {}), **run["baselines"]}.items()}
    return max(known.items(), key=lambda each: each[1], default=("nothing", 0.0))
