"""Training data of every step, a pure function of the data seed and the step: resuming needs no generator state."""

from dataclasses import dataclass

import torch

from icecore.models.engines import Engine, ModelBatch, ModelBatches, ShapeBuckets
from icecore.seeding import make_generator
from icecore.tasks import Batch, Task
from icecore.tasks.check import checked_sample
from icecore.training.batches import prepare_batches
from icecore.training.parallel import MicroBatches

BLOCK_TOKENS = {"cpu": 1 << 20, "cuda": 1 << 21}  # about, per block of sampled data
EPOCHS_TOKENS = {"cpu": 1 << 20, "cuda": 1 << 23}  # at most, per block of epochs
MOST_EPOCHS = 64
STREAM_GROUP = 2  # steps per group, all of the size of the largest
EPOCH_GROUP = 10  # for finite sets, whose steps differ little
BATCHES_MULTIPLE = 10  # batches per block of sampled data are a multiple of this


@dataclass(frozen=True)
class StepSlot:
    """Location of a step: `index` in `batches`, within the group of equally sized steps from `begin` to `end`."""

    batches: ModelBatches
    index: int
    begin: int
    end: int
    micro: MicroBatches

    def step(self, index: int) -> list[ModelBatch]:
        """Return this process's micro-batches of a step."""
        return [self.batches.step(index * self.micro.total + part) for part in self.micro.local_indices]


def batch_sizes(train_set: Batch | None, batch: int) -> tuple[int, int]:
    """Return (batch size, size of an epoch's last batch)."""
    return batch, batch if train_set is None else (len(train_set) - 1) % batch + 1


class Stream:
    """Training batches by step. Unlimited data are sampled in blocks; finite sets are shuffled every epoch.

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
        """Return the task's batch for a step."""
        index, place = divmod(step, self.batches_per_block)
        if index != self.block_index or self.block is None:
            self.block_index, self.block = index, self.make_block(index)
        epoch, place = divmod(place, self.batches_per_epoch)
        begin = place * self.batch
        end = begin + (self.last_batch if place == self.batches_per_epoch - 1 else self.batch)
        return self.block[epoch][begin:end]

    def make_block(self, index: int) -> list[Batch]:
        """Return the epochs of a block; a block of sampled data has one."""
        generator = make_generator(self.data_seed, "train", index, device=self.device)
        if self.items is None:
            return [checked_sample(self.task, self.batches_per_epoch * self.batch, generator)]
        shape = (self.epochs, len(self.items))
        bits = torch.randint(-(2**63), 2**63 - 1, shape, generator=generator, device=self.device)
        return [self.items[order] for order in bits.argsort(dim=1)]  # ties: one in 2^40 epochs


Block = tuple[ModelBatches | None, ModelBatches | None]  # full batches, and the smaller last batches of epochs


class BatchStream:
    """Batches by step, prepared for an engine one block at a time.

    With `bucketed`, groups of consecutive steps have the same size, and sizes are rounded up so that they repeat, for
    captured graphs. Otherwise every step has the size it needs.
    """

    def __init__(
        self, stream: Stream, engine: type[Engine], bucketed: bool = False, micro: MicroBatches = MicroBatches()
    ) -> None:
        self.stream, self.engine, self.micro = stream, engine, micro
        self.group = STREAM_GROUP if stream.items is None else EPOCH_GROUP
        total = micro.total
        self.buckets = ShapeBuckets(self.full_batches * total, self.group * total) if bucketed else None
        self.buckets_of_last = ShapeBuckets(total, total) if bucketed else None
        self.block_index = -1
        self.full: ModelBatches | None = None
        self.last: ModelBatches | None = None
        # High priority: its many small kernels are cheap, and waiting for them would delay the next block.
        self.side = torch.cuda.Stream(priority=-1) if stream.device.type == "cuda" else None
        self.ahead: tuple[int, Block, torch.cuda.Event] | None = None
        self.last_use: torch.cuda.Event | None = None

    def at(self, step: int) -> StepSlot:
        stream = self.stream
        index, place = divmod(step, stream.batches_per_block)
        if index != self.block_index:
            self.full, self.last = self.take_block(index)
            self.block_index = index
        epoch, place = divmod(place, stream.batches_per_epoch)
        if self.last is not None and place == stream.batches_per_epoch - 1:
            return StepSlot(self.last, epoch, epoch, epoch + 1, self.micro)
        assert self.full is not None
        group, first = self.group if self.buckets is not None else 1, epoch * self.full_batches
        begin = first + place // group * group
        return StepSlot(self.full, first + place, begin, min(begin + group, first + self.full_batches), self.micro)

    def take_block(self, index: int) -> Block:
        """Return the block made ahead, or a new one."""
        self.full = self.last = None  # before the next is made: two take twice the memory
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
        """Make the next block on a separate CUDA stream while this block's steps run; do nothing on a CPU."""
        if self.side is not None and self.ahead is None:
            self.ahead = self.make_ahead(self.block_index + 1)

    def is_last_of_block(self, step: int) -> bool:
        return (step + 1) % self.stream.batches_per_block == 0

    def make_ahead(self, index: int) -> tuple[int, Block, torch.cuda.Event]:
        assert self.side is not None
        with torch.cuda.stream(self.side):
            if self.last_use is not None:  # the previous block's steps still use freed memory
                self.side.wait_event(self.last_use)
            block, ready = self.make(self.stream.make_block(index)), torch.cuda.Event()
            ready.record(self.side)
            return index, block, ready

    @property
    def full_batches(self) -> int:
        """Return the number of full batches per epoch."""
        return self.stream.batches_per_epoch - (self.stream.last_batch < self.stream.batch)

    def make(self, epochs: list[Batch]) -> Block:
        rows, vocab_size = self.stream.batch, self.stream.task.vocab_size
        whole = self.full_batches * rows
        full = last = None
        if whole:
            batch = Batch.concatenate([epoch[:whole] for epoch in epochs])
            full = prepare_batches(self.engine, vocab_size, batch, self.micro.rows_of(rows), self.buckets)
        if self.stream.last_batch < rows:
            batch = Batch.concatenate([epoch[whole:] for epoch in epochs])
            rows = self.micro.rows_of(self.stream.last_batch)
            last = prepare_batches(self.engine, vocab_size, batch, rows, self.buckets_of_last)
        return full, last
