"""Tasks with a second sampler in plain Python: it makes the authors' test sets and is the slow reference."""

import abc
import functools
import random
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any, ClassVar

import torch

from icecore.errors import require
from icecore.store import ADDED_LATER
from icecore.tasks.base import Task
from icecore.tasks.batch import Batch, Item

MOST_TEST_ITEMS = 1_000_000  # about a minute to draw
RELEASED_SEED = 12345  # SOURCE: every released script seeds its data with it


def unfiltered_setting() -> Any:
    """Return the setting that keeps test items in the training data, for tasks of the released stream scripts.

    SOURCE: the released `experiment_stream` rejects test items. In the authors' first commit (c2839cc) a script of
    that name kept them, beside `experiment_stream_new`, which rejected them. We reject them by default. It matters for
    parentheses: 14 % of draws are test items, among them all balanced strings of 2, 4 and 6 characters, which a model
    then never sees in training.
    """
    return field(default=False, metadata={ADDED_LATER: True})


class PlainTask(Task):
    """Task with a second sampler in plain Python, which repeats the released scripts draw for draw.

    It makes the test set, which equals the authors' item for item. Tests compare the tensor sampler with it.
    """

    padding: ClassVar[int] = 0

    @abc.abstractmethod
    def plain_item(self, rng: random.Random) -> Item:
        """Make one item with the released scripts' sequence of draws."""

    def test_rng(self) -> random.Random:
        """Return the generator of the test items and, after them, of their shuffle."""
        return random.Random(RELEASED_SEED)

    def layout(self, item: Item) -> tuple[Sequence[int], range]:
        """Return the item's tokens, targets included, and the positions whose next token is scored."""
        sequence = item.prompt + item.answer
        return sequence, range(len(item.prompt) - 1, len(sequence) - 1)

    def encode(self, items: Sequence[Item]) -> Batch:
        """Encode the items as a batch, padded to `max_length`."""
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
        """Yield training items one by one: the reference for `sample`."""
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
    require(test_size <= MOST_TEST_ITEMS, f"test_size must be at most {MOST_TEST_ITEMS:,}, got {test_size:,}")
