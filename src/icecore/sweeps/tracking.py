"""Track a run whose body trained after its embeddings: measures at every snapshot, one network at a time in memory."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from icecore.analysis.pathway import Measure, Pathway, Setting
from icecore.analysis.pathway_measures import makers_of, measures_of
from icecore.errors import InputError, require
from icecore.models import Parameters, initialize, names_of_half, trained_names
from icecore.seeding import derive_seed
from icecore.sweeps.variance import sample_of
from icecore.training import Population, RunConfig, index_of
from icecore.training.snapshots import on, parameters_at, snapshots_in
from icecore.training.start import FromRun, FromSeed

ITEMS = 500  # number of test items
NEXT, REDRAWN = "the next seed", "a re-drawn body"  # unrelated networks
Result = dict[str, Any]  # as JSON
OnProgress = Callable[[str, int, int], None]  # (what, groups of measures done, all)


@dataclass(frozen=True)
class Track:
    """A run in its folder, from the step at which its body began to train."""

    path: Path
    config: RunConfig
    population: Population
    seeds: tuple[int, ...]
    beside: Population | None = None  # full training from the same initial weights

    def __post_init__(self) -> None:
        for seed in self.seeds:
            index_of(seed, self.config.seeds)
        require_thaw(self.path, self.config)
        require_before(self.path, self.config)

    def beside_run(self, config: RunConfig, population: Population, name: str) -> "Track":
        """Return the track with another run beside it; raise unless that run's networks are of the same kind."""
        require(
            config.model == self.config.model and config.dims == self.config.dims,
            f"{name} has another model or vocabulary than the run: their networks cannot be compared",
        )
        missing = [seed for seed in self.seeds if seed not in config.seeds]
        require(not missing, f"{name} has the seeds {list(config.seeds)}, not {missing}; choose others with --seeds")
        return replace(self, beside=population)

    @property
    def before_step(self) -> int:
        return before_step(self.config)

    @property
    def steps(self) -> list[int]:
        """Return the steps with snapshots of all these seeds, and the last one."""
        there = [step for step, seeds in snapshots_in(self.path).items() if set(self.seeds) <= seeds]
        return sorted({step for step in there if step > self.before_step} | {self.config.steps})

    def before(self, seed: int) -> dict[str, Tensor]:
        return parameters_at(self.path, self.config, self.before_step, seed, self.population.device)

    def after(self, seed: int, step: int) -> Parameters:
        if step == self.config.steps:
            return self.population.parameters(index_of(seed, self.config.seeds))
        return parameters_at(self.path, self.config, step, seed, self.population.device)

    def unrelated_seed(self, seed: int) -> int | None:
        """Return the next seed; with --embeddings-from, neither has the body that the other's embeddings are from."""
        seeds, start = self.config.seeds, self.config.start
        place = seeds.index(seed)
        shift = start.shift if isinstance(start, FromRun) and start.take == "embeddings" else 0
        others = (other for other in seeds[place + 1 :] + seeds[:place] if not shift or abs(other - seed) != abs(shift))
        return next(others, None)

    def null(self, seed: int, before: Parameters) -> tuple[Parameters, str]:
        """Return an unrelated network, another seed's before its body trained, and its name.

        If there is none, it is another random body with the same embeddings, which solves nothing.
        """
        other = self.unrelated_seed(seed)
        if other is not None:
            return self.before(other), f"seed {other}"
        model, dims = self.config.model, self.config.dims
        drawn = initialize(model, dims, derive_seed(seed, "another body") % 2**31)
        body = set(names_of_half(model, dims, "body"))
        chosen = {name: drawn[name] if name in body else before[name] for name in drawn}
        return on(self.population.device, chosen), REDRAWN


def before_step(config: RunConfig) -> int:
    """Return the step after which the last phase begins."""
    return config.steps - config.phases[-1].training.steps


def require_thaw(path: Path, config: RunConfig) -> None:
    """Raise unless the body trains in the last phase, after something that was trained before."""
    body = set(names_of_half(config.model, config.dims, "body"))
    trains = body & set(trained_names(config.model, config.dims, config.trainable))
    require(
        bool(trains),
        f"the body of {path} does not train at its end ({config.trainable}): track a run that starts from it, "
        f"icecore train ... --from {path} --trainable all --snapshots 20",
    )
    if before_step(config) == 0 and isinstance(config.start, FromSeed):
        raise InputError(
            f"{path} trains from its seeds: there is nothing before it to compare with; track one that starts from a "
            "run, icecore train ... --from RUN --trainable all --snapshots 20, or has --phases"
        )


def require_before(path: Path, config: RunConfig) -> None:
    """Raise unless the weights at the beginning of the last phase are there."""
    step = before_step(config)
    require(
        step == 0 or set(config.seeds) <= snapshots_in(path).get(step, set()),
        f"{path} has no snapshot of step {step}, where its last phase begins: train it again, with --overwrite",
    )


def setting_of_track(config: RunConfig, items: int, device: torch.device) -> Setting:
    task = config.task
    return Setting(config.model, config.dims, task, task.test_set()[:items].to(device), sample_of(task).to(device))


def track(run: Track, items: int = ITEMS, on_progress: OnProgress = lambda *_: None) -> Result:
    """Return every seed's measures at every snapshot, and those of the run beside it."""
    setting = setting_of_track(run.config, items, run.population.device)
    points: list[Result] = []
    beside: list[Result] = []
    groups, done = len(makers_of(setting)), 0
    total = groups * len(run.seeds) * (len(run.steps) + (run.beside is not None))

    def tick() -> None:
        nonlocal done
        done += 1
        on_progress("track", done, total)

    on_progress("track", 0, total)
    nulls: list[str] = []
    for seed in run.seeds:
        before = run.before(seed)
        null, null_name = run.null(seed, before)
        nulls.append(null_name)
        pathway = Pathway(setting, before, null)
        for step in run.steps:
            points.append(point_of(seed, step, *measures_of(pathway, run.after(seed, step), tick)))
        if run.beside is not None:
            other = run.beside.parameters(index_of(seed, run.beside.seeds))
            beside.append(point_of(seed, run.config.steps, *measures_of(pathway, other, tick)))
    return {
        "task": run.config.task.name,
        "seeds": list(run.seeds),
        "before": run.before_step,
        "steps": run.steps,
        "items": len(setting.items),
        "metric": setting.yardstick.metric,
        "baseline": {"rule": setting.yardstick.rule, "value": setting.yardstick.baseline},
        "null": " or ".join(sorted({REDRAWN if name == REDRAWN else NEXT for name in nulls}, reverse=True)),
        "points": points,
        **({"beside": beside} if beside else {}),
    }


def point_of(seed: int, step: int, measures: Sequence[Measure], details: Result) -> Result:
    """Return one seed's measures at one step as JSON, with six significant digits.

    A network that was at the baseline had no mechanism, so it has no scores.
    """
    has_mechanism = details["above_baseline"]["before"]
    named = {each.name: {**asdict(each), "score": each.score if has_mechanism else None} for each in measures}
    for each in named.values():
        del each["name"]
    return rounded({"seed": seed, "step": step, **details, "measures": named})


def rounded(value: Any) -> Any:
    """Round numbers to six significant digits: the rest is rounding of float32."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list | tuple) else value
