"""The data of every step, as a pure function of the data seed and the step: resuming needs no generator's state."""

import torch

from icecore.seeding import make_generator
from icecore.tasks import Batch, Task

BLOCK_TOKENS = 1 << 20  # a stream is drawn in blocks of about so many tokens


class Stream:
    """Training batches by step. Streams are drawn in blocks; finite sets are shuffled every epoch.

    SOURCE: an epoch's last batch is smaller, as in the released scripts.
    """

    def __init__(self, task: Task, batch: int, data_seed: int, device: torch.device) -> None:
        self.task, self.batch, self.data_seed, self.device = task, batch, data_seed, device
        train_set = task.train_set()
        self.items = None if train_set is None else train_set.to(device)
        if self.items is None:
            self.batches_per_block = max(1, BLOCK_TOKENS // (batch * task.max_length))
        else:
            self.batches_per_block = -(-len(self.items) // batch)
        self.block_index, self.block = -1, None

    def batch_at(self, step: int) -> Batch:
        index, place = divmod(step, self.batches_per_block)
        if index != self.block_index or self.block is None:
            self.block_index, self.block = index, self.make_block(index)
        return self.block[place * self.batch : (place + 1) * self.batch]

    def make_block(self, index: int) -> Batch:
        generator = make_generator(self.data_seed, "train", index, device=self.device)
        if self.items is None:
            return self.task.sample(self.batches_per_block * self.batch, generator)
        return self.items[torch.randperm(len(self.items), generator=generator, device=self.device)]
