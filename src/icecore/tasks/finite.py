"""Tasks with finitely many items, trained in epochs."""

import abc
import functools
from collections.abc import Sequence
from typing import ClassVar, Literal

import torch

from icecore.errors import require
from icecore.tasks.base import Task
from icecore.tasks.batch import Batch, Item


class PairTask(Task):
    """Fixed table of token pairs with one answer each: the input is [a, b], the answer is read at b.

    SOURCE: both finite scripts also feed the answer after the pair; the causal mask hides it.
    """

    test_split: ClassVar[Literal["rejected", "separate", "none"]] = "separate"

    @property
    def max_length(self) -> int:
        return 2

    @abc.abstractmethod
    def splits(self) -> tuple[list[Item], list[Item]]:
        """Return the training items and the test items, in the released order."""

    def train_items(self) -> list[Item]:
        return list(pair_splits(self)[0])

    def test_items(self) -> list[Item]:
        return list(pair_splits(self)[1])

    def train_set(self) -> Batch:
        return pair_batches(self)[0]

    def test_set(self) -> Batch:
        return pair_batches(self)[1]

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        """Draw different training items, in random order."""
        train = self.train_set()
        require(
            count <= len(train),
            f"a batch must not exceed the {len(train)} training items, got {count}",
        )
        rows = torch.randperm(len(train), generator=generator, device=generator.device)[:count]
        return train.to(generator.device)[rows]


@functools.lru_cache(maxsize=16)
def pair_splits(task: PairTask) -> tuple[list[Item], list[Item]]:
    return task.splits()


@functools.lru_cache(maxsize=16)
def pair_batches(task: PairTask) -> tuple[Batch, Batch]:
    train, test = pair_splits(task)
    train_batch = encode_pairs(train)
    return train_batch, train_batch if test is train else encode_pairs(test)


def encode_pairs(items: Sequence[Item]) -> Batch:
    tokens = torch.tensor([item.prompt for item in items])
    answers = torch.tensor([item.answer for item in items])
    return Batch(
        tokens,
        torch.cat([torch.zeros_like(answers), answers], dim=1),
        torch.tensor([False, True]).expand(len(items), -1),
    )
