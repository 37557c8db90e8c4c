"""Trained parameters on their way: those that a run saved, those of a run trained again, or its two ends."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from icecore.models import Model
from icecore.training import Intervals, Population, Progress, RunFolder, TrainedRun, index_of, train_config
from icecore.training.evaluation import evaluate
from icecore.training.snapshots import parameters_at, snapshots_in

LOOKS = 4  # evaluations per kept snapshot, to choose among

OnTraining = Callable[[Progress], None]


@dataclass(frozen=True)
class Snapshot:
    """Trained parameters of one seed after some steps, with the test accuracy and loss if they are known."""

    step: int
    parameters: dict[str, Tensor]
    accuracy: float | None = None
    loss: float | None = None


def way_of(run: TrainedRun, seed: int, count: int, may_train: bool, on_training: OnTraining) -> list[Snapshot]:
    """Return snapshots from the start of a seed's training to its end, between which the weights moved equally far.

    They are those that the run saved (`train --snapshots`). A run with none but between its phases is trained again, if
    it may be. `count` is the most beside the first.
    """
    found = ends_of(run, seed) if count == 0 else saved_of(run, seed)
    if len(found) <= 1 + len(run.config.phases) and count > 1 and may_train:
        found = trained_again(run, seed, count, on_training)
    distances = [moved(*pair) for pair in itertools.pairwise(found)]
    return [found[index] for index in equally_far(distances, max(1, count))]


def saved_of(run: TrainedRun, seed: int) -> list[Snapshot]:
    """Return a seed's two ends and the snapshots between them that its run saved."""
    first, last = ends_of(run, seed)
    if run.path is None:
        return [first, last]
    index, names = index_of(seed, run.config.seeds), run.config.trained_names
    rows = {row["step"]: row for row in RunFolder(run.path).metrics()}
    between = [step for step, seeds in snapshots_in(run.path).items() if seed in seeds and step < run.config.steps]
    found = []
    for step in between:
        parameters, row = parameters_at(run.path, run.config, step, seed), rows.get(step, {})
        of_all = {} if "items" in row else row  # an accuracy on a sample is not the test accuracy
        known = [of_all[name][index] if of_all.get(name) else None for name in ("accuracy", "test_loss")]
        found.append(Snapshot(step, {name: parameters[name] for name in names}, *known))
    return [first, *found, last]


def trained_again(run: TrainedRun, seed: int, count: int, on_training: OnTraining) -> list[Snapshot]:
    """Train one seed of the run again on the CPU and return more snapshots than are wanted."""
    config = dataclasses.replace(run.config, seeds=(seed,), precision="fp32")
    names, found = config.trained_names, []

    def keep(_model: Model, parameters: dict[str, Tensor], _batch: Any) -> float:
        found.append({name: parameters[name].clone() for name in names})
        return float(len(found))

    every = max(1, config.steps // (LOOKS * count))
    intervals = Intervals.of(config.steps, None, every, config.steps)
    again = train_config(
        config, torch.device("cpu"), intervals, on_progress=on_training, probes={"snapshot": keep}, force=True
    )
    rows = [row for row in again.metrics if "probes" in row]
    return [
        Snapshot(row["step"], each, *(first_of(row, name) for name in ("accuracy", "test_loss")))
        for row, each in zip(rows, found, strict=True)
    ]


def measured(run: TrainedRun, seed: int, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with its test accuracy and loss, computed if training did not measure them."""
    if snapshot.accuracy is not None:
        return snapshot
    config, device = run.config, torch.device("cpu")
    parameters = config.initial(seed) | snapshot.parameters
    population = Population(config.model, config.dims, (seed,), config.trainable, device, initial=lambda _: parameters)
    found = evaluate(population, config.task, config.task.test_set())
    return dataclasses.replace(snapshot, accuracy=found["accuracy"][0], loss=found["loss"][0])


def first_of(row: Mapping[str, Any], name: str) -> float | None:
    return row[name][0] if row.get(name) else None


def moved(before: Snapshot, after: Snapshot) -> float:
    """Return the distance that the trained parameters moved."""
    return (
        sum(float((after.parameters[name] - value).square().sum()) for name, value in before.parameters.items()) ** 0.5
    )


def equally_far(distances: Sequence[float], count: int) -> list[int]:
    """Return `count` + 1 places on a path, the first and the last among them, at about equal distances along it."""
    if len(distances) <= count:
        return list(range(len(distances) + 1))
    at = [0.0]
    for distance in distances:
        at.append(at[-1] + distance)
    wanted = [at[-1] * index / count for index in range(count + 1)]
    nearest = [min(range(len(at)), key=lambda place, goal=goal: abs(at[place] - goal)) for goal in wanted]
    return sorted({0, len(distances), *nearest})


def ends_of(run: TrainedRun, seed: int) -> list[Snapshot]:
    """Return a seed's parameters before and after training."""
    names, index = run.config.trained_names, index_of(seed, run.config.seeds)
    before, after = run.config.initial(seed), run.parameters(seed)
    accuracy, loss = run.result["accuracy"][index], run.result["loss"][index]
    return [
        Snapshot(0, {name: before[name] for name in names}),
        Snapshot(run.config.steps, {name: after[name].cpu() for name in names}, accuracy, loss),
    ]
