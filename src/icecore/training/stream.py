"""The data of every step, as a pure function of the data seed and the step: resuming needs no generator's state."""

import functools
from dataclasses import dataclass

import torch

from icecore.models import Model
from icecore.seeding import make_generator
from icecore.tasks import Batch, Task
from icecore.training.work import Works, works

BLOCK_TOKENS = {"cpu": 1 << 20, "cuda": 1 << 21}  # a block of a stream has about so many
EPOCHS_TOKENS = {"cpu": 1 << 20, "cuda": 1 << 23}  # a block of epochs
MOST_EPOCHS = 64
STREAM_GROUP = 2  # steps of a group: the size of the largest is that of all
EPOCH_GROUP = 10  # of finite sets, whose steps hardly differ
BATCHES_MULTIPLE = 10  # a block of a stream has a multiple of so many batches


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
        if self.items is None:
            self.epochs, self.last_batch = 1, batch
            tens = BLOCK_TOKENS[device.type] // (batch * task.max_length * BATCHES_MULTIPLE)
            self.batches_per_epoch = max(1, tens) * BATCHES_MULTIPLE
        else:
            tokens = self.items.tokens.numel()
            self.epochs = max(1, min(MOST_EPOCHS, EPOCHS_TOKENS[device.type] // tokens))
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
        """The epochs of a block; a stream's blocks have one."""
        generator = make_generator(self.data_seed, "train", index, device=self.device)
        if self.items is None:
            return [self.task.sample(self.batches_per_epoch * self.batch, generator)]
        shape = (self.epochs, len(self.items))
        bits = torch.randint(-(2**63), 2**63 - 1, shape, generator=generator, device=self.device)
        return [self.items[order] for order in bits.argsort(dim=1)]  # ties: one in 2^40 epochs


Block = tuple[Works | None, Works | None]  # steps of full batches, and those of an epoch's smaller last one


class WorkStream:
    """The work of every step: a stream's blocks, made ready for a model as a whole.

    Grouped, a few steps in a row have the same size, and sizes are rounded up so that they repeat: what a captured
    graph needs. Otherwise every step has the size it needs.
    """

    def __init__(self, stream: Stream, model: Model, grouped: bool = False) -> None:
        self.stream, self.model = stream, model
        self.group = None if not grouped else STREAM_GROUP if stream.items is None else EPOCH_GROUP
        self.block_index = -1
        self.full: Works | None = None
        self.last: Works | None = None
        # Its many small kernels go first: they take little, and waited for, they would hold up the next block.
        self.side = torch.cuda.Stream(priority=-1) if stream.device.type == "cuda" else None
        self.ahead: tuple[int, Block, torch.cuda.Event] | None = None
        self.last_use: torch.cuda.Event | None = None

    def at(self, step: int) -> Place:
        stream = self.stream
        index, place = divmod(step, stream.batches_per_block)
        if index != self.block_index:
            self.full, self.last = self.take_block(index)
            self.block_index = index
        epoch, place = divmod(place, stream.batches_per_epoch)
        if self.last is not None and place == stream.batches_per_epoch - 1:
            return Place(self.last, epoch, epoch, epoch + 1)
        assert self.full is not None
        group, first = self.group or 1, epoch * self.full_batches
        begin = first + place // group * group
        return Place(self.full, first + place, begin, min(begin + group, first + self.full_batches))

    def take_block(self, index: int) -> Block:
        """A block: the one made ahead, or a new one."""
        self.full = self.last = None  # before the next is made: two would take twice the memory
        ahead, self.ahead = self.ahead, None
        if self.side is None:
            return self.make(self.stream.make_block(index))
        main = torch.cuda.current_stream()
        self.last_use = torch.cuda.Event()
        self.last_use.record(main)
        if ahead is None or ahead[0] != index:
            ahead = self.make_ahead(index)
        main.wait_event(ahead[2])
        return ahead[1]

    def look_ahead(self) -> None:
        """On a GPU, make the next block while the steps of this one run; its waiting is for its own work alone."""
        if self.side is not None and self.ahead is None:
            self.ahead = self.make_ahead(self.block_index + 1)

    def is_last_of_block(self, step: int) -> bool:
        return (step + 1) % self.stream.batches_per_block == 0

    def make_ahead(self, index: int) -> tuple[int, Block, torch.cuda.Event]:
        assert self.side is not None
        with torch.cuda.stream(self.side):
            if self.last_use is not None:  # of memory that is given back, by the steps of the block before
                self.side.wait_event(self.last_use)
            block, ready = self.make(self.stream.make_block(index)), torch.cuda.Event()
            ready.record(self.side)
            return index, block, ready

    @property
    def full_batches(self) -> int:
        """Of an epoch."""
        return self.stream.batches_per_epoch - (self.stream.last_batch < self.stream.batch)

    def make(self, epochs: list[Batch]) -> Block:
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
        return works(self.model, vocabulary, batch, rows, sizes)


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
