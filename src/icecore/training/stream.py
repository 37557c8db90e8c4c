"""The data of every step, as a pure function of the data seed and the step: resuming needs no generator's state."""

import functools
from dataclasses import dataclass

import torch

from icecore.models import Model
from icecore.seeding import make_generator
from icecore.tasks import Batch, Task
from icecore.training.work import Works, works

BLOCK_TOKENS = {"cpu": 1 << 20, "cuda": 1 << 22}  # a block has about so many
MOST_EPOCHS = 64  # of a finite set in one block
ROUND_UP = 256  # what else differs from block to block is a multiple of this, so that sizes repeat


@dataclass(frozen=True)
class Place:
    """Where a step's work is: at `index` of `works`, in a group of steps from `begin` to `end` of one size."""

    works: Works
    index: int
    begin: int
    end: int


class Stream:
    """Training batches by step. Streams are drawn in blocks; finite sets are shuffled every epoch.

    SOURCE: an epoch's last batch is smaller, as in the released scripts.
    """

    def __init__(self, task: Task, batch: int, data_seed: int, device: torch.device) -> None:
        self.task, self.batch, self.data_seed, self.device = task, batch, data_seed, device
        train_set = task.train_set()
        self.items = None if train_set is None else train_set.to(device)
        block_tokens = BLOCK_TOKENS[device.type]
        if self.items is None:
            self.epochs, self.last_batch = 1, batch
            self.batches_per_epoch = max(1, block_tokens // (batch * task.max_length))
        else:
            self.epochs = max(1, min(MOST_EPOCHS, block_tokens // self.items.tokens.numel()))
            self.batches_per_epoch = -(-len(self.items) // batch)
            self.last_batch = len(self.items) - (self.batches_per_epoch - 1) * batch
        self.block_index, self.block = -1, None

    @property
    def batches_per_block(self) -> int:
        return self.epochs * self.batches_per_epoch

    def batch_at(self, step: int) -> Batch:
        """The batch as the task gives it."""
        index, place = divmod(step, self.batches_per_block)
        if index != self.block_index or self.block is None:
            self.block_index, self.block = index, self.make_block(index)
        epoch, place = divmod(place, self.batches_per_epoch)
        begin = place * self.batch
        end = begin + (self.last_batch if place == self.batches_per_epoch - 1 else self.batch)
        return self.block[epoch][begin:end]

    def make_block(self, index: int) -> list[Batch]:
        """The epochs of a block, each with a random stream of its own."""
        return [self.make_epoch(index * self.epochs + epoch) for epoch in range(self.epochs)]

    def make_epoch(self, index: int) -> Batch:
        generator = make_generator(self.data_seed, "train", index, device=self.device)
        if self.items is None:
            return self.task.sample(self.batches_per_epoch * self.batch, generator)
        return self.items[torch.randperm(len(self.items), generator=generator, device=self.device)]


class WorkStream:
    """The work of every step: a stream's blocks, made ready for a model as a whole.

    With `group`, so many steps in a row have the same size, and sizes are rounded up so that they repeat: what a
    captured graph needs. Without it, every step has the size it needs.
    """

    def __init__(self, stream: Stream, model: Model, group: int | None = None) -> None:
        self.stream, self.model, self.group = stream, model, group
        self.block_index = -1
        self.full: Works | None = None
        self.last: Works | None = None

    def at(self, step: int) -> Place:
        stream = self.stream
        index, place = divmod(step, stream.batches_per_block)
        if index != self.block_index:
            self.full = self.last = None  # before the next: two blocks at once would take twice the memory
            self.full, self.last = self.make(stream.make_block(index))
            self.block_index = index
        epoch, place = divmod(place, stream.batches_per_epoch)
        if self.last is not None and place == stream.batches_per_epoch - 1:
            return Place(self.last, epoch, epoch, epoch + 1)
        assert self.full is not None
        group, first = self.group or 1, epoch * self.full_batches
        begin = first + place // group * group
        return Place(self.full, first + place, begin, min(begin + group, first + self.full_batches))

    @property
    def full_batches(self) -> int:
        """Of an epoch."""
        return self.stream.batches_per_epoch - (self.stream.last_batch < self.stream.batch)

    def make(self, epochs: list[Batch]) -> tuple[Works | None, Works | None]:
        """The steps of full batches, and those of smaller ones if the last of an epoch is smaller."""
        whole = self.full_batches * self.stream.batch
        full = self.ready([epoch[:whole] for epoch in epochs], self.stream.batch, self.full_batches) if whole else None
        if self.stream.last_batch == self.stream.batch:
            return full, None
        return full, self.ready([epoch[whole:] for epoch in epochs], self.stream.last_batch, 1)

    def ready(self, epochs: list[Batch], rows: int, steps_per_epoch: int) -> Works:
        batch, vocabulary = Batch.concatenate(epochs), self.stream.task.vocab_size
        if self.group is None:
            return works(self.model, vocabulary, batch, rows)
        sizes = functools.partial(sizes_by_group, steps_per_epoch, self.group)
        return works(self.model, vocabulary, batch, rows, sizes, ROUND_UP)


def sizes_by_group(steps_per_epoch: int, group: int, needed: list[int]) -> list[int]:
    """For each step the most that its group needs, rounded up by at most a thirty-second."""
    sizes: list[int] = []
    for first in range(0, len(needed), steps_per_epoch):
        epoch = needed[first : first + steps_per_epoch]
        for begin in range(0, len(epoch), group):
            members = epoch[begin : begin + group]
            unit = 1 << max(4, (max(members) // 64).bit_length())
            sizes += [-(-max(members) // unit) * unit] * len(members)
    return sizes
