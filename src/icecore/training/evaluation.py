"""Accuracies and losses of a population, and the result of a run."""

import contextlib
import math
import platform
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import icecore
from icecore.errors import require
from icecore.store import origin
from icecore.tasks import Batch, Task
from icecore.training.config import RunConfig
from icecore.training.population import Population, predict
from icecore.training.progress import Progress, ProgressCallback
from icecore.user_code import reraise_user_error


def evaluate(
    population: Population, task: Task, batch: Batch, on_rows: Callable[[int], None] | None = None
) -> dict[str, list[float]]:
    """Return each seed's accuracies by name and its loss in all units; `on_rows` gets the number of rows done."""
    dims, longest, largest = population.dims, batch.tokens.shape[1], int(batch.tokens.max())
    require(longest <= dims.n_positions, f"the model has {dims.n_positions} positions, but items have {longest} tokens")
    require(largest < dims.vocab_size, f"the model knows tokens up to {dims.vocab_size - 1}, not {largest}")
    return measured(task, batch, *predict(population, batch, on_rows=on_rows))


def measured(
    task: Task, batch: Batch, predictions: Int64[Tensor, "seed item seq"], loss: Float[Tensor, " seed"]
) -> dict[str, list[float]]:
    with (
        contextlib.nullcontext()
        if task.source_text is None
        else reraise_user_error(f"accuracies of {task.name} failed")
    ):
        accuracies = {name: value.tolist() for name, value in task.accuracies(predictions, batch).items()}
    units = {name: (loss * factor).tolist() for name, factor in task.loss_units(batch).items()}
    return accuracies | {"loss": loss.tolist()} | units


def evaluating(
    on_progress: ProgressCallback | None, step: int, steps: int, loss: list[float], test: Batch
) -> Callable[[int], None] | None:
    """Return a callback that reports evaluation progress: a wide model on a CPU takes minutes."""
    if on_progress is None:
        return None

    def on_rows(rows: int) -> None:
        if rows < len(test):
            on_progress(Progress(step, steps, loss, evaluated=rows / len(test)))

    return on_rows


def refuse_non_finite_result(result: dict[str, Any]) -> None:
    for seed, loss in zip(result["seeds"], result["loss"], strict=True):
        require(math.isfinite(loss), f"the test loss of seed {seed} is not finite at the end; try a lower --lr")


def result_of(config: RunConfig, population: Population, device: torch.device) -> dict[str, Any]:
    """Return the parts of a result that are not measured on the test set."""
    trained, frozen = config.parameter_counts
    train_set = config.task.train_set() if config.task.test_split == "separate" else None
    on_train = {} if train_set is None else evaluate(population, config.task, train_set.to(device))
    return {
        **({"train_accuracy": on_train["accuracy"]} if on_train else {}),
        "seeds": list(config.seeds),
        "baselines": config.task.baselines(),
        **({"loss_baselines": loss_baselines} if (loss_baselines := config.task.loss_baselines()) else {}),
        "trained_parameters": trained,
        "frozen_parameters": frozen,
        "steps": config.steps,
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        "versions": {"icecore": icecore.__version__, "torch": torch.__version__, "python": platform.python_version()},
        **origin(),
    }


def device_name(device: torch.device) -> str:
    """Return a device in words, as records name it."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu ({platform.machine()})"
