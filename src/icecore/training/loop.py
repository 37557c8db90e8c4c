"""Training, evaluation and their result."""

import contextlib
import math
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import icecore
from icecore.errors import InputError, Interrupted, is_out_of_memory, require
from icecore.models import has_fast_path
from icecore.own_files import of_the_users
from icecore.process import settle
from icecore.store import origin, remember_source
from icecore.tasks import Batch, Language, Task
from icecore.training.config import RunConfig
from icecore.training.parallel import Parts
from icecore.training.population import Population, predict
from icecore.training.precision import Precision
from icecore.training.replay import Replay
from icecore.training.run_folder import RunFolder
from icecore.training.steps import NEVER, Steps
from icecore.training.stream import Stream, WorkStream


@dataclass(frozen=True)
class Progress:
    """What whoever watches a run is told: after `step` steps, each seed's loss, and its accuracy when measured.

    While it is measured, `evaluated` is the share of the items that is done.
    """

    step: int
    steps: int
    loss: list[float]
    accuracy: list[float] | None = None
    test_loss: list[float] | None = None
    evaluated: float | None = None


Watch = Callable[[Progress], None]


@dataclass(frozen=True)
class Cadence:
    """How often to look and to save, in steps. It changes nothing of training; the best loss of a language model is
    among those that were looked at.
    """

    log_every: int
    evaluate_every: int
    checkpoint_every: int

    @staticmethod
    def of(steps: int, log: int | None, evaluate: int | None, checkpoint: int | None) -> "Cadence":
        for name, value in (("log_every", log), ("evaluate_every", evaluate), ("checkpoint_every", checkpoint)):
            require(value is None or value >= 1, f"{name} must be at least 1, got {value}")
        return Cadence(log or max(1, steps // 200), evaluate or max(1, steps // 10), checkpoint or max(1, steps // 20))

    def next_stop(self, step: int, steps: int) -> int:
        """The next step after `step` at which there is something to do."""
        every = (self.log_every, self.evaluate_every, self.checkpoint_every)
        return min(steps, *((step // often + 1) * often for often in every))

    def looks_at(self, step: int, steps: int) -> bool:
        return step % self.log_every == 0 or step % self.evaluate_every == 0 or step == steps


def train_run(
    config: RunConfig,
    device: torch.device,
    cadence: Cadence,
    folder: RunFolder | None = None,
    with_body: bool = False,
    watch: Watch | None = None,
    parts: Parts = Parts(),
) -> tuple[dict[str, Any], Population, list[dict[str, Any]]]:
    """Train a population to the end, from its last checkpoint if there is one.

    The result, the population, and a row for each step that was looked at.

    Of several processes the first one has the folder.
    """
    settle()
    remember_source()
    steps = config.optimization.steps
    on_test: dict[str, list[float]] = {}  # what was measured after the latest step that was looked at
    try:
        population = Population(
            config.model, config.sizes, config.seeds, config.trainable, device, Precision(config.precision)
        )
        test = config.task.test_set().to(device)
        with interrupts_deferred() as interrupted, population.precision.in_matrix_products():
            trainer = Trainer(config, population, folder, parts)
            while trainer.step < steps:
                done = cadence.next_stop(trainer.step, steps)
                trainer.advance(done, interrupted)
                done = trainer.step
                is_interrupted = parts.parallel.is_true_anywhere(interrupted.is_set(), device)
                trainer.refuse_non_finite()
                if cadence.looks_at(done, steps):
                    loss = trainer.steps.loss.tolist()
                    on_test = {}
                    if done % cadence.evaluate_every == 0:
                        on_test = evaluate(population, config.task, test, evaluating(watch, done, steps, loss, test))
                    trainer.report(Progress(done, steps, loss, on_test.get("accuracy"), on_test.get("loss")), watch)
                if done % cadence.checkpoint_every == 0 or is_interrupted or done == steps:
                    trainer.save()
                if is_interrupted:
                    kept = "" if folder is None else f", saved in {folder.path}"
                    raise Interrupted(f"interrupted after step {done}{kept}")
        if not on_test:  # at the last step
            on_rows = evaluating(watch, steps, steps, trainer.steps.loss.tolist(), test)
            on_test = evaluate(population, config.task, test, on_rows)
        result = on_test | result_of(config, population, device)
        refuse_non_finite_result(result)
        result |= trainer.best(result["loss"]) | {"seconds": round(trainer.seconds, 3)}
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise out_of_memory(config) from error
        raise
    if folder is not None:
        folder.finish(result, population, with_body)
    return result, population, trainer.rows


class Trainer:
    """One population on its way: the steps taken, the data, and where it is saved."""

    def __init__(
        self, config: RunConfig, population: Population, folder: RunFolder | None, parts: Parts = Parts()
    ) -> None:
        self.config, self.population, self.folder, self.parallel = config, population, folder, parts.parallel
        device, is_alone = population.device, parts.parallel.processes == 1
        self.steps = Steps(population, config.optimization, self.parallel)
        # Several processes meet in every step, and would wait for each other where one captures a graph.
        captures = device.type == "cuda" and has_fast_path(config.model) and is_alone
        self.replay = Replay(self.steps) if captures else None
        stream = Stream(config.task, config.optimization.batch, config.data_seed, device)
        self.works = WorkStream(stream, config.model, grouped=captures, parts=parts)
        self.rows: list[dict[str, Any]] = []  # what was seen of each step that was looked at
        self.step = 0
        self.saved_step: int | None = None
        self.started, self.seconds_before = time.monotonic(), 0.0
        self.restore()

    @property
    def seconds(self) -> float:
        """Of training so far, before a kill too as far as it was saved."""
        return self.seconds_before + time.monotonic() - self.started

    def advance(self, until: int, interrupted: threading.Event) -> None:
        """Take steps up to step `until`, or until interrupted."""
        while self.step < until and not (interrupted.is_set() and self.parallel.processes == 1):
            place = self.works.at(self.step)
            if self.replay is None:
                self.steps.take(*place.step(place.index))
                self.step += 1
                if self.population.device.type == "cpu":
                    self.refuse_non_finite()
            else:
                whole_group = place.index == place.begin and self.step + place.end - place.begin <= until
                end = place.end if whole_group else place.index + 1
                self.replay.take([place.step(index) for index in range(place.index, end)])
                self.step += end - place.index
            if self.step == until or self.works.is_last_of_block(self.step - 1):
                self.works.look_ahead()  # while a GPU is busy with what it was given

    def refuse_non_finite(self) -> None:
        bad = self.steps.first_bad_step
        if bool((bad == NEVER).all()):
            return
        index = int((bad != NEVER).nonzero()[0, 0])
        raise self.not_finite(
            f"the loss of seed {self.population.seeds[index]} is not finite at step {int(bad[index])}"
        )

    def not_finite(self, what: str) -> InputError:
        saved = "no checkpoint was saved yet"
        if self.folder is not None and self.saved_step is not None:
            saved = f"the last checkpoint is step {self.saved_step} in {self.folder.path}"
        way_out = "try a lower --lr" if self.step > 1 else "try a lower --gain or --lr"
        return InputError(f"{what}; {saved}; {way_out}")

    def report(self, progress: Progress, watch: Watch | None) -> None:
        row: dict[str, Any] = {"step": progress.step, "loss": progress.loss}
        if progress.accuracy is not None:
            row |= {"accuracy": progress.accuracy, "test_loss": progress.test_loss}
        self.rows.append(row)
        if self.folder is not None:
            self.folder.append_metrics(row)
        if watch is not None:
            watch(progress)

    def save(self) -> None:
        """A loss is of the weights before its step, so the last step may have spoilt them: they are looked at too."""
        for name, values in self.population.trained.items():
            if not bool(values.isfinite().all()):
                raise self.not_finite(f"{name} is not finite after step {self.step}")
        self.saved_step = self.step
        if self.folder is not None:
            self.folder.save_checkpoint(self.step, self.seconds, self.steps.state())

    def restore(self) -> None:
        if self.folder is not None:
            checkpoint = self.folder.load_checkpoint()
            if checkpoint is not None:
                self.step, self.seconds_before, tensors = checkpoint
                steps = self.config.optimization.steps
                require(0 <= self.step <= steps, f"{self.folder.path} has a checkpoint of step {self.step} of {steps}")
                self.saved_step = self.step
                self.steps.set_state(self.step, tensors)
            self.folder.forget_metrics_after(self.step)
            self.rows = list(self.folder.metrics())
        step = self.parallel.share(self.step, self.steps.state(), self.population.device)
        if step != self.step:
            self.step = step
            self.steps.set_state(step, self.steps.state())

    def best(self, at_the_end: list[float]) -> dict[str, list[float]]:
        """Of language modeling, each seed's least validation loss among all that were measured, and after which step.

        Of other tasks the end of training counts, and nothing else is kept.
        """
        if not isinstance(self.config.task, Language):
            return {}
        measured = [(row["step"], row["test_loss"]) for row in self.rows if row.get("test_loss") is not None]
        steps, losses = zip(*measured, (self.config.optimization.steps, at_the_end), strict=True)
        least = [min(zip(of_seed, steps, strict=True)) for of_seed in zip(*losses, strict=True)]
        return {"best_loss": [loss for loss, _ in least], "best_step": [step for _, step in least]}


def evaluate(
    population: Population, task: Task, batch: Batch, on_rows: Callable[[int], None] | None = None
) -> dict[str, list[float]]:
    """Each seed's accuracies, by name, and its loss, in all units; `on_rows` is told how many rows are done."""
    sizes, longest, largest = population.sizes, batch.tokens.shape[1], int(batch.tokens.max())
    require(longest <= sizes.positions, f"the model has {sizes.positions} positions, and items {longest} tokens")
    require(largest < sizes.vocab_size, f"the model knows tokens up to {sizes.vocab_size - 1}, not {largest}")
    return measured(task, batch, *predict(population, batch, on_rows=on_rows))


def measured(
    task: Task, batch: Batch, predictions: Int64[Tensor, "seed item seq"], loss: Float[Tensor, " seed"]
) -> dict[str, list[float]]:
    with contextlib.nullcontext() if task.source_text is None else of_the_users(f"accuracies of {task.name} failed"):
        accuracies = {name: value.tolist() for name, value in task.accuracies(predictions, batch).items()}
    units = {name: (loss * factor).tolist() for name, factor in task.loss_units(batch).items()}
    return accuracies | {"loss": loss.tolist()} | units


def evaluating(
    watch: Watch | None, step: int, steps: int, loss: list[float], test: Batch
) -> Callable[[int], None] | None:
    """What tells a watcher how far an evaluation is: of a wide model on a CPU it takes minutes."""
    if watch is None:
        return None

    def on_rows(rows: int) -> None:
        if rows < len(test):
            watch(Progress(step, steps, loss, evaluated=rows / len(test)))

    return on_rows


def refuse_non_finite_result(result: dict[str, Any]) -> None:
    for seed, loss in zip(result["seeds"], result["loss"], strict=True):
        require(math.isfinite(loss), f"the test loss of seed {seed} is not finite at the end; try a lower --lr")


def result_of(config: RunConfig, population: Population, device: torch.device) -> dict[str, Any]:
    """What a result has beside what was measured on test items."""
    trained, frozen = population.counts()
    train_set = config.task.train_set() if config.task.test_split == "separate" else None
    on_train = {} if train_set is None else evaluate(population, config.task, train_set.to(device))
    return {
        **({"train_accuracy": on_train["accuracy"]} if on_train else {}),
        "seeds": list(config.seeds),
        "floors": config.task.floors(),
        **({"loss_floors": loss_floors} if (loss_floors := config.task.loss_floors()) else {}),
        "trained_parameters": trained,
        "frozen_parameters": frozen,
        "steps": config.optimization.steps,
        "device": device_name(device),
        "versions": {"icecore": icecore.__version__, "torch": torch.__version__, "python": platform.python_version()},
        **origin(),
    }


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu ({platform.machine()})"


def out_of_memory(config: RunConfig) -> InputError:
    batch, seeds = config.optimization.batch, len(config.seeds)
    way_out = f"--batch {batch // 2}" if batch > 1 else "a smaller model"
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
