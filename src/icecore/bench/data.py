"""Speed of sampling batches, against the plain Python reference of the same distribution."""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from icecore.seeding import make_generator
from icecore.tasks import TASKS
from icecore.tasks.plain import PlainTask

BLOCK = 32_768  # items per call: training draws many batches at once
PLAIN_BLOCK = 2_000


@dataclass(frozen=True)
class DataRate:
    """Training items per second, test items rejected, of the sampler and of its reference."""

    task: str
    items_per_s: float
    python_items_per_s: float

    @property
    def ratio(self) -> float:
        return self.items_per_s / self.python_items_per_s


def streaming_tasks() -> list[PlainTask]:
    """Return the tasks that draw fresh items, except imitation, whose cost is its target model."""
    return [
        task_class()
        for task_class in TASKS.values()
        if issubclass(task_class, PlainTask) and task_class.name != "imitation"
    ]


def bench_data(rounds: int = 40) -> Iterator[DataRate]:
    """Yield one row per task: the best round of each. Rounds alternate, so that other load affects both."""
    for task in streaming_tasks():
        generator = make_generator(0, "bench")
        stream = task.plain_stream(random.Random(0))
        task.sample(BLOCK, generator)
        next(stream)
        sampled_in, plain_in = [], []
        for _ in range(rounds):
            start = time.perf_counter()
            task.sample(BLOCK, generator)
            middle = time.perf_counter()
            for _ in range(PLAIN_BLOCK):
                next(stream)
            sampled_in.append(middle - start)
            plain_in.append(time.perf_counter() - middle)
        yield DataRate(task.name, BLOCK / min(sampled_in), PLAIN_BLOCK / min(plain_in))
