"""Tasks whose items also come one by one from plain Python: the authors' test sets, and the slow reference."""

import abc
import functools
import random
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any, ClassVar

import torch

from icecore.errors import require
from icecore.store import ADDED_LATER
from icecore.tasks.base import Batch, Item, Task

RELEASED_SEED = 12345  # SOURCE: every released script seeds its data with it


def kept_in_stream() -> Any:
    """A setting of the tasks that the released stream scripts train.

    DIFFERS: the scripts' README runs `experiment_stream`, whose stream keeps test items; `experiment_stream_new`,
    beside it, drops them. We drop them by default. It matters for parentheses: 14 % of draws are test items, among
    them all balanced strings of 2, 4 and 6, which a model then has to get right without having seen their like.
    """
    return field(default=False, metadata={ADDED_LATER: True})


class PlainTask(Task):
    """A task with a second, plain way to make an item, draw for draw as in the released scripts.

    The plain way makes the test set, so that it equals the authors' item for item, and it is what
    tests compare the tensor sampler with.
    """

    padding: ClassVar[int] = 0

    @abc.abstractmethod
    def plain_item(self, rng: random.Random) -> Item:
        """One item, by the released scripts' own sequence of draws."""

    def test_rng(self) -> random.Random:
        """The generator that the test items, and then their shuffle, come from."""
        return random.Random(RELEASED_SEED)

    def layout(self, item: Item) -> tuple[Sequence[int], range]:
        """The item's token sequence, targets included, and the positions whose next token is scored."""
        sequence = item.prompt + item.answer
        return sequence, range(len(item.prompt) - 1, len(sequence) - 1)

    def encode(self, items: Sequence[Item]) -> Batch:
        """The items as a batch, padded to `max_length`."""
        shape = (len(items), self.max_length)
        tokens = torch.full(shape, self.padding)
        targets = torch.zeros(shape, dtype=torch.int64)
        scored = torch.zeros(shape, dtype=torch.bool)
        for row, item in enumerate(items):
            sequence, positions = self.layout(item)
            fed, span = positions.stop, slice(positions.start, positions.stop)
            tokens[row, :fed] = torch.tensor(sequence[:fed])
            targets[row, span] = torch.tensor(sequence[span.start + 1 : span.stop + 1])
            scored[row, span] = True
        return Batch(tokens, targets, scored)

    def test_items(self) -> list[Item]:
        return list(plain_test_items(self))

    def test_set(self) -> Batch:
        return plain_test_set(self)

    def plain_stream(self, rng: random.Random) -> Iterator[Item]:
        """Items to train on, one by one: the reference of `sample`."""
        held_out = set(plain_test_items(self)) if self.rejects_test_items else set()
        while True:
            item = self.plain_item(rng)
            if item not in held_out:
                yield item

    @property
    def rejects_test_items(self) -> bool:
        return super().rejects_test_items and not getattr(self, "test_items_in_stream", False)


@functools.lru_cache(maxsize=64)
def plain_test_items(task: PlainTask) -> tuple[Item, ...]:
    rng = task.test_rng()
    items = [task.plain_item(rng) for _ in range(task.test_size)]
    rng.shuffle(items)
    return tuple(items)


@functools.lru_cache(maxsize=64)
def plain_test_set(task: PlainTask) -> Batch:
    return task.encode(plain_test_items(task))


def require_test_size(test_size: int) -> None:
    require(test_size >= 1, f"test_size must be at least 1, got {test_size}")
