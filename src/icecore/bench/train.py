"""Training speed: ms per seed-step, beside the lower bound of its matrix products, the reference and a user's loop."""

import dataclasses
import itertools
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from icecore.bench.lower_bound import Product, lower_bound_seconds, operations, products_in
from icecore.bench.user_loop import user_step
from icecore.models import MODELS, Model
from icecore.models.engines import ReferenceEngine
from icecore.signals import Interrupts
from icecore.tasks import Task, make_task
from icecore.training import Precision, RunConfig, config_of
from icecore.training.loop import Trainer
from icecore.training.population import Population
from icecore.training.steps import Steps
from icecore.training.stream import Stream

QUIET_BLOCKS = 3
BODIES = ("llama", "linear-attention", "deltanet", "mamba", "gru")
TASKS_OF_TABLE1 = ("needle", "parentheses", "decimal-addition", "modular-addition")


@dataclass(frozen=True)
class Case:
    """A timed configuration, with the paper's batch unless it has its own."""

    task: str
    model: str = "transformer"
    width: int = 1024
    trainable: str = "embeddings"
    seeds: int = 1
    batch: int | None = None

    def make(self) -> tuple[Task, Model]:
        made: Any = MODELS[self.model]  # every model has a width
        return make_task(self.task), made(width=self.width)


GPU_CASES = (
    *(Case(task) for task in TASKS_OF_TABLE1),
    *(Case(task, trainable="all") for task in TASKS_OF_TABLE1),
    *(Case(task, "lstm", trainable="all") for task in TASKS_OF_TABLE1),
    Case("memorization", width=128),
    Case("memorization", width=128, trainable="all"),
    *(Case(task, width=16, seeds=10) for task in TASKS_OF_TABLE1),
    *(Case(task, width=16, seeds=10, trainable="all") for task in TASKS_OF_TABLE1),
    *(Case("needle", body, width=512) for body in ("transformer", *BODIES)),
)
CPU_CASES = (
    Case("needle", width=256),
    Case("needle", width=256, trainable="all"),
    Case("parentheses", width=256),
    Case("decimal-addition", width=256),
    Case("modular-addition", width=256),
    # transformers' Mamba keeps every state: a batch of 1,000 does not fit the memory of most computers.
    *(Case("needle", body, 128, batch=100 if body == "mamba" else None) for body in ("transformer", *BODIES)),
)


@dataclass(frozen=True)
class TrainRate:
    """One row; every time is in ms per step of one seed."""

    task: str
    model: str
    width: int
    trainable: str
    seeds: int
    batch: int
    precision: str
    ms_per_seed_step: float
    peak_gb: float | None  # peak GPU memory
    gflop: float  # matrix products per step of one seed
    lower_bound_ms: float
    reference_ms: float
    huggingface_ms: float
    share_of_lower_bound: float  # lower bound / our time


def cases_for(
    device: torch.device, task: str | None = None, width: int | None = None, model: str | None = None
) -> list[Case]:
    """Return the cases of a task, width or model; a width that no case has replaces those of all."""
    cases = GPU_CASES if device.type == "cuda" else CPU_CASES
    cases = tuple(case for case in cases if model in (None, case.model))
    if width is not None and all(case.width != width for case in cases):
        cases = tuple(dataclasses.replace(case, width=width) for case in cases)
    chosen = [case for case in cases if task in (None, case.task) and width in (None, case.width)]
    return list(dict.fromkeys(chosen)) or [Case(task or "needle", model or "transformer", width or 256)]


def bench_train(cases: list[Case], device: torch.device, precision: Precision, seconds: float) -> Iterator[TrainRate]:
    """Yield one row per case; each implementation runs for about `seconds`."""
    for case in cases:
        yield bench_case(case, device, precision, seconds)
        if device.type == "cuda":
            torch.cuda.empty_cache()


def config_for(case: Case, precision: Precision) -> RunConfig:
    """Return the paper's config, with more steps than any benchmark takes."""
    batch: dict[str, Any] = {} if case.batch is None else {"batch": case.batch}
    return config_of(*case.make(), case.trainable, case.seeds, precision=precision, steps=200_000, **batch)


def bench_case(case: Case, device: torch.device, precision: Precision, seconds: float) -> TrainRate:
    config = config_for(case, precision)
    ours, peak, counts = time_ours(config, device, seconds)
    with Precision.fp32.in_matrix_products():
        plain = seconds_per_call(reference_steps(config, device), seconds, device)
        baseline = user_step(config.task, config.model, config.dims, config.trainable, config.training, device)
        user = seconds_per_call(baseline, seconds, device)
    with precision.in_matrix_products():
        lower_bound = lower_bound_seconds(counts, device)
    return TrainRate(
        case.task,
        case.model,
        case.width,
        case.trainable,
        case.seeds,
        config.training.batch,
        precision,
        ms_per_seed_step=1e3 * ours / case.seeds,
        peak_gb=peak,
        gflop=operations(counts) / 1e9 / case.seeds,
        lower_bound_ms=1e3 * lower_bound / case.seeds,
        reference_ms=1e3 * plain / case.seeds,
        huggingface_ms=1e3 * user,
        share_of_lower_bound=lower_bound / ours,
    )


def reference_steps(config: RunConfig, device: torch.device) -> Callable[[], None]:
    """Return a function that takes one step of the reference per call."""
    population = Population(config.model, config.dims, config.seeds, config.trainable, device, engine=ReferenceEngine)
    steps = Steps(population, config.training)
    stream = Stream(config.task, config.training.batch, config.data_seed, device)
    numbers = itertools.count()
    return lambda: steps.take(population.prepare(stream.batch_at(next(numbers))))


class OurSteps:
    """Takes steps as `icecore train` does: on a GPU a whole block per call, so that data generation is included."""

    def __init__(self, config: RunConfig, device: torch.device) -> None:
        self.trainer = Trainer(config, device)
        self.at_once = self.trainer.batches.stream.batches_per_block if device.type == "cuda" else 1

    def __call__(self) -> None:
        self.trainer.advance(self.trainer.step + self.at_once, Interrupts())

    def warm_up(self) -> None:
        """Take steps; on a GPU, until several blocks in a row need no new CUDA graph."""
        self()
        replay, quiet = self.trainer.replay, 0
        while replay is not None and quiet < QUIET_BLOCKS:
            graphs = len(replay.graphs)
            self()
            quiet = quiet + 1 if graphs == len(replay.graphs) else 0


def time_ours(config: RunConfig, device: torch.device, seconds: float) -> tuple[float, float | None, Counter[Product]]:
    """Return seconds per step, peak memory in GB, and a step's matrix products."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with Precision(config.precision).in_matrix_products():
        ours = OurSteps(config, device)
        first = ours.trainer.batches.at(0)
        (batch,) = first.step(first.index)
        counts = products_in(lambda: ours.trainer.steps.take(batch))
        tokens = int(ours.trainer.batches.stream.batch_at(0).lengths.sum())  # without padding
        hidden = ours.trainer.population.groups[0].network.hidden_products(tokens)
        dtype = Precision(config.precision).dtype
        counts += Counter({Product(1, *shape, dtype): count for shape, count in hidden.items()})
        ours.warm_up()
        per_step = seconds_per_call(ours, seconds, device, warm_up=False) / ours.at_once
    peak = torch.cuda.max_memory_allocated() / 1e9 if device.type == "cuda" else None
    return per_step, peak, counts


def seconds_per_call(function: Callable[[], None], seconds: float, device: torch.device, warm_up: bool = True) -> float:
    """Return the median of at least three calls that together take about `seconds`."""
    if warm_up:
        function()
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        wait(device)
        start = time.perf_counter()
        function()
        wait(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
