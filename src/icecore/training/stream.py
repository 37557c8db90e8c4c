"""The data of every step, as a pure function of the data seed and the step: resuming needs no generator's state."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor

from icecore.models import Model
from icecore.seeding import make_generator
from icecore.tasks import Batch, Task
from icecore.tasks.check import checked_sample
from icecore.training.parallel import Parts
from icecore.training.work import Work, Works, works

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
    parts: Parts

    def step(self, index: int) -> list[Work]:
        """This process's parts of a step."""
        return [self.works.step(index * self.parts.count + part) for part in self.parts.mine]


def batch_sizes(train_set: Batch | None, batch: int) -> tuple[int, int]:
    """Of all batches but an epoch's last one, and of that one."""
    return batch, batch if train_set is None else (len(train_set) - 1) % batch + 1


class Stream:
    """Training batches by step. Streams are drawn in blocks; finite sets are shuffled every epoch.

    SOURCE: an epoch's last batch is smaller, as in the released scripts.
    """

    def __init__(self, task: Task, batch: int, data_seed: int, device: torch.device) -> None:
        self.task, self.batch, self.data_seed, self.device = task, batch, data_seed, device
        train_set = task.train_set()
        self.items = None if train_set is None else train_set.to(device)
        if self.items is None:
            self.epochs = 1
            tens = BLOCK_TOKENS[device.type] // (batch * task.max_length * BATCHES_MULTIPLE)
            self.batches_per_epoch = max(1, tens) * BATCHES_MULTIPLE
        else:
            tokens = self.items.tokens.numel()
            self.epochs = max(1, min(MOST_EPOCHS, EPOCHS_TOKENS[device.type] // tokens))
            self.batches_per_epoch = -(-len(self.items) // batch)
        _, self.last_batch = batch_sizes(self.items, batch)
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
            return [checked_sample(self.task, self.batches_per_epoch * self.batch, generator)]
        shape = (self.epochs, len(self.items))
        bits = torch.randint(-(2**63), 2**63 - 1, shape, generator=generator, device=self.device)
        return [self.items[order] for order in bits.argsort(dim=1)]  # ties: one in 2^40 epochs


Block = tuple[Works | None, Works | None]  # steps of full batches, and those of an epoch's smaller last one


class WorkStream:
    """The work of every step: a stream's blocks, made ready for a model as a whole.

    Grouped, a few steps in a row have the same size, and sizes are rounded up so that they repeat: what a captured
    graph needs. Otherwise every step has the size it needs.
    """

    def __init__(self, stream: Stream, model: Model, grouped: bool = False, parts: Parts = Parts()) -> None:
        self.stream, self.model, self.parts = stream, model, parts
        self.group = STREAM_GROUP if stream.items is None else EPOCH_GROUP
        count = parts.count
        self.sizes_of_full = FewSizes(self.full_batches * count, self.group * count) if grouped else None
        self.sizes_of_last = FewSizes(count, count) if grouped else None
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
            return Place(self.last, epoch, epoch, epoch + 1, self.parts)
        assert self.full is not None
        group, first = self.group if self.sizes_of_full is not None else 1, epoch * self.full_batches
        begin = first + place // group * group
        return Place(self.full, first + place, begin, min(begin + group, first + self.full_batches), self.parts)

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
        rows, vocabulary = self.stream.batch, self.stream.task.vocab_size
        whole = self.full_batches * rows
        full = last = None
        if whole:
            batch = Batch.concatenate([epoch[:whole] for epoch in epochs])
            full = works(self.model, vocabulary, batch, self.parts.rows_of(rows), self.sizes_of_full)
        if self.stream.last_batch < rows:
            batch = Batch.concatenate([epoch[whole:] for epoch in epochs])
            rows = self.parts.rows_of(self.stream.last_batch)
            last = works(self.model, vocabulary, batch, rows, self.sizes_of_last)
        return full, last


class FewSizes:
    """Sizes that repeat: what a captured graph needs.

    Nodes of a transformer: a few steps in a row, a group, have as many as the largest of them, rounded up. Tokens of
    an LSTM: there is one size, with some room, that grows where a step needs more.
    """

    def __init__(self, steps_per_epoch: int, group: int) -> None:
        self.steps_per_epoch, self.group = steps_per_epoch, group
        self.times: Int64[Tensor, " time"] | None = None

    def of_nodes(self, needed: list[int]) -> list[int]:
        """For each step the most that its group needs, rounded up by at most a thirty-second."""
        sizes: list[int] = []
        for first in range(0, len(needed), self.steps_per_epoch):
            epoch = needed[first : first + self.steps_per_epoch]
            for begin in range(0, len(epoch), self.group):
                members = epoch[begin : begin + self.group]
                unit = 1 << max(4, (max(members) // 64).bit_length())
                sizes += [-(-max(members) // unit) * unit] * len(members)
        return sizes

    def of_times(self, reached: Int64[Tensor, "step time"], rows: int) -> Int64[Tensor, " time"]:
        """For each time, at least as many sequences as reach it in any step.

        The number that reach it is a sum of `rows` independent draws, whose standard deviation is at most half the
        room: of the steps of a run, hardly one needs more than those of a block and the room.
        """
        most = reached.amax(dim=0)
        if self.times is None or bool((most > self.times).any()):
            with_room = torch.where(most > 0, (most + math.isqrt(rows)).clamp(max=rows), 0)
            self.times = with_room if self.times is None else with_room.maximum(self.times)
        return self.times
