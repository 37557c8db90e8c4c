"""Shared parts of the ladder's tasks: their number of items, and two ways to lay out an item."""

import abc
from typing import Literal

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from icecore.errors import require
from icecore.seeding import make_generator
from icecore.tasks.base import Task
from icecore.tasks.batch import Batch, Item

FEW = 1_000  # with fewer items than this, nothing is held out
SHARE = 10  # at most one item in this many is held out
USUAL_TEST_SIZE = 4_000
MOST = 4_096  # tokens per item, or symbols


class LadderTask(Task):
    """Task that knows how many different items it has, and holds out at most a tenth of them.

    Where there are few, as for the parity of four bits, nothing is held out: accuracy is measured on random items,
    which were trained on too.
    """

    @property
    @abc.abstractmethod
    def item_count(self) -> int:
        """Return the number of different items."""

    @property
    def test_split(self) -> Literal["rejected", "separate", "none"]:  # type: ignore[override]
        return "none" if self.item_count < FEW else "rejected"

    def test_set(self) -> Batch:
        most = self.test_size if self.test_split == "none" else self.item_count // SHARE
        return self.draw(min(self.test_size, most), make_generator(0, "test"))

    def require_sizes(self, **ranges: tuple[int, int]) -> None:
        """Raise unless the settings are within these inclusive ranges, and the test set is no larger than the task."""
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            require(low <= value <= high, f"{name} of {self.name} must be {low} to {high:,}, got {value:,}")
        require(self.test_size >= 1, f"test_size must be at least 1, got {self.test_size}")
        most = max(self.item_count, USUAL_TEST_SIZE)
        require(
            self.test_size <= most,
            f"{self.name} with these settings has {self.item_count:,} items, got a test_size of {self.test_size:,}; "
            "take a smaller one, or a larger task",
        )


class TaggingTask(LadderTask):
    """Ladder task with answers at several positions of its input; answers are not fed."""

    def items(self, batch: Batch) -> list[Item]:
        """Return the items: the prompt is the input up to the last answer."""
        parts = (batch.tokens, batch.targets, batch.scored, batch.lengths)
        return [
            Item(tuple(tokens[:length]), tuple(target for target, asked in zip(targets, mask, strict=True) if asked))
            for tokens, targets, mask, length in zip(*(part.tolist() for part in parts), strict=True)
        ]


def written(prompt: Int64[Tensor, "batch prompt"], answer: Int64[Tensor, "batch answer"]) -> Batch:
    """Return items whose answer is written after the prompt: each token is predicted at the one before it."""
    begin = prompt.shape[1] - 1
    tokens = torch.cat([prompt, answer[:, :-1]], dim=1)
    targets = torch.cat([torch.zeros_like(prompt[:, :begin]), answer], dim=1)
    scored = torch.arange(tokens.shape[1], device=tokens.device) >= begin
    return Batch(tokens, targets, scored.expand(len(tokens), -1))


def tagged(
    tokens: Int64[Tensor, "batch seq"],
    targets: Int64[Tensor, "batch seq"],
    scored: Bool[Tensor, "batch seq"],
    padding: int,
) -> Batch:
    """Return items with answers at several positions of their input, with padding after the last one."""
    is_read = scored.flip(1).cummax(dim=1).values.flip(1)
    return Batch(torch.where(is_read, tokens, padding), targets * scored, scored)


def constant_column(value: int, like: Int64[Tensor, "batch seq"]) -> Int64[Tensor, "batch 1"]:
    return torch.full_like(like[:, :1], value)
