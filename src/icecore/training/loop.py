"""Training, evaluation and their result."""

import contextlib
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import icecore
from icecore.errors import InputError, Interrupted, require
from icecore.process import prepare
from icecore.tasks import Batch, Task
from icecore.training.config import RunConfig
from icecore.training.population import Population, clip_each_seed, losses, predict
from icecore.training.run_folder import RESULT, RunFolder
from icecore.training.stream import Stream


@dataclass(frozen=True)
class Progress:
    """What whoever watches a run is told: after `step` steps, each seed's loss, and its accuracy when measured."""

    step: int
    steps: int
    loss: list[float]
    accuracy: list[float] | None = None


Watch = Callable[[Progress], None]


@dataclass(frozen=True)
class Cadence:
    """How often to look and to save, in steps. None of it changes the result."""

    log_every: int
    evaluate_every: int
    checkpoint_every: int

    @staticmethod
    def of(steps: int, log: int | None, evaluate: int | None, checkpoint: int | None) -> "Cadence":
        for name, value in (("log_every", log), ("evaluate_every", evaluate), ("checkpoint_every", checkpoint)):
            require(value is None or value >= 1, f"{name} must be at least 1, got {value}")
        return Cadence(log or max(1, steps // 200), evaluate or max(1, steps // 10), checkpoint or max(1, steps // 20))


def train_run(
    config: RunConfig,
    device: torch.device,
    cadence: Cadence,
    folder: RunFolder | None = None,
    with_body: bool = False,
    watch: Watch | None = None,
) -> tuple[dict[str, Any], Population]:
    """Train a population to the end, from its last checkpoint if there is one; the result and the population."""
    prepare()
    started = time.monotonic()
    population = Population(config.model, config.sizes, config.seeds, config.trainable, device)
    trainer = Trainer(config, population, folder)
    test = config.task.test_set().to(device)
    try:
        with interrupts_deferred() as interrupted:
            for step in range(trainer.step, config.optimization.steps):
                loss = trainer.take_step(step)
                done = step + 1
                look = done % cadence.log_every == 0 or done == config.optimization.steps
                if look or done % cadence.evaluate_every == 0:
                    trainer.refuse_non_finite(loss, step)
                    accuracy = None
                    if done % cadence.evaluate_every == 0:
                        accuracy = evaluate(population, config.task, test)["accuracy"]
                    trainer.report(Progress(done, config.optimization.steps, loss.tolist(), accuracy), watch)
                if done % cadence.checkpoint_every == 0 or interrupted.is_set() or done == config.optimization.steps:
                    trainer.refuse_non_finite(loss, step)
                    trainer.save(done)
                if interrupted.is_set():
                    kept = "" if folder is None else f", saved in {folder.path}"
                    raise Interrupted(f"interrupted after step {done}{kept}")
        result = result_of(config, population, test, device, time.monotonic() - started)
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise out_of_memory(config) from error
    except RuntimeError as error:
        if "allocate memory" in str(error):  # the CPU allocator has no exception of its own
            raise out_of_memory(config) from error
        raise
    if folder is not None:
        folder.finish(result, population, with_body)
    return result, population


class Trainer:
    """One population on its way: the optimizer, the data, and where it is saved."""

    def __init__(self, config: RunConfig, population: Population, folder: RunFolder | None) -> None:
        self.config, self.population, self.folder = config, population, folder
        device = next(iter(population.trained.values())).device
        self.on_cpu = device.type == "cpu"
        self.stream = Stream(config.task, config.optimization.batch, config.data_seed, device)
        specs = config.model.specs(config.sizes)
        groups = [
            {
                "params": [value for name, value in population.trained.items() if specs[name].decays is decays],
                "weight_decay": config.optimization.weight_decay if decays else 0.0,
            }
            for decays in (True, False)
        ]
        self.optimizer = torch.optim.AdamW([group for group in groups if group["params"]], betas=(0.9, 0.999), eps=1e-8)
        self.step = 0
        self.saved_step: int | None = None
        self.restore()

    def take_step(self, step: int) -> Tensor:
        """One step of all seeds; each seed's loss before it."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.optimization.lr_at(step)
        batch = self.stream.batch_at(step)
        if self.on_cpu:  # elsewhere the longest length would have to be waited for
            batch = batch.trimmed()
        loss = losses(self.population.logits(batch), batch)
        self.optimizer.zero_grad()
        loss.sum().backward()
        clip_each_seed(list(self.population.trained.values()), self.config.optimization.clip)
        if self.on_cpu:
            self.refuse_non_finite(loss, step)
        self.optimizer.step()
        return loss.detach()

    def refuse_non_finite(self, loss: Tensor, step: int) -> None:
        if bool(loss.isfinite().all()):
            return
        seed = self.population.seeds[int((~loss.isfinite()).nonzero()[0, 0])]
        saved = "no checkpoint was saved yet"
        if self.folder is not None and self.saved_step is not None:
            saved = f"the last good checkpoint is step {self.saved_step} in {self.folder.path}"
        raise InputError(f"the loss of seed {seed} is not finite at step {step}; {saved}; try a lower --lr")

    def report(self, progress: Progress, watch: Watch | None) -> None:
        if self.folder is not None:
            row: dict[str, Any] = {"step": progress.step, "loss": progress.loss}
            if progress.accuracy is not None:
                row["accuracy"] = progress.accuracy
            self.folder.append_metrics(row)
        if watch is not None:
            watch(progress)

    def save(self, step: int) -> None:
        self.step = self.saved_step = step
        if self.folder is None:
            return
        tensors: dict[str, Tensor] = {}
        for name, value in self.population.trained.items():
            state = self.optimizer.state[value]
            tensors[f"value/{name}"] = value
            tensors[f"mean/{name}"] = state["exp_avg"]
            tensors[f"square/{name}"] = state["exp_avg_sq"]
        self.folder.save_checkpoint(step, tensors)

    def restore(self) -> None:
        checkpoint = None if self.folder is None else self.folder.load_checkpoint()
        if self.folder is None or checkpoint is None:
            if self.folder is not None:
                self.folder.forget_metrics_after(0)
            return
        self.step, tensors = checkpoint
        self.saved_step = self.step
        with torch.no_grad():
            for name, value in self.population.trained.items():
                value.copy_(tensors[f"value/{name}"])
                self.optimizer.state[value] = {
                    "step": torch.tensor(float(self.step)),
                    "exp_avg": tensors[f"mean/{name}"].to(value.device),
                    "exp_avg_sq": tensors[f"square/{name}"].to(value.device),
                }
        self.folder.forget_metrics_after(self.step)


def evaluate(
    population: Population, task: Task, batch: Batch, on_rows: Callable[[int], None] | None = None
) -> dict[str, list[float]]:
    """Each seed's accuracies, by name, and its loss; `on_rows` is told how many rows are done."""
    predictions, loss = predict(population, batch, on_rows=on_rows)
    accuracies = {name: value.tolist() for name, value in task.accuracies(predictions, batch).items()}
    return accuracies | {"loss": loss.tolist()}


def result_of(
    config: RunConfig, population: Population, test: Batch, device: torch.device, seconds: float
) -> dict[str, Any]:
    trained, frozen = population.counts()
    return {
        **evaluate(population, config.task, test),
        "seeds": list(config.seeds),
        "floors": config.task.floors(),
        "trained_parameters": trained,
        "frozen_parameters": frozen,
        "steps": config.optimization.steps,
        "seconds": round(seconds, 3),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu ({platform.machine()})",
        "versions": {"icecore": icecore.__version__, "torch": torch.__version__, "python": platform.python_version()},
    }


def out_of_memory(config: RunConfig) -> InputError:
    batch, seeds = config.optimization.batch, len(config.seeds)
    way_out = f"--batch {max(1, batch // 2)}"
    if seeds > 1:
        way_out = f"--seeds {','.join(map(str, config.seeds[: seeds // 2]))} (and the others after them), or {way_out}"
    return InputError(f"out of memory with batch {batch} and {seeds} seed{'s' * (seeds > 1)}: try {way_out}")


@contextlib.contextmanager
def interrupts_deferred() -> Iterator[threading.Event]:
    """Ctrl-C sets the event instead of breaking into a step; a second one breaks in after all."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: Any) -> None:
        if event.is_set() and callable(before):
            before(number, frame)
        event.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)


def stored_result(folder: RunFolder) -> dict[str, Any]:
    from icecore.store import read_json

    return read_json(folder.path / RESULT)
