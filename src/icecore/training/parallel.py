"""Data-parallel training with `torchrun`: each process computes a part of every batch, and all take the same step."""

import atexit
import os
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from icecore.errors import require


@dataclass(frozen=True)
class Parallel:
    """Rank and world size; collectives are no-ops in a single process."""

    rank: int = 0
    processes: int = 1

    @staticmethod
    def join(device: torch.device) -> "Parallel":
        """Join torchrun's process group, if there is one."""
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        if processes == 1:
            return Parallel()
        if device.type == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        if not dist.is_initialized():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
            atexit.register(dist.destroy_process_group)
        return Parallel(dist.get_rank(), dist.get_world_size())

    @property
    def is_first(self) -> bool:
        """Tell whether this is rank 0, the only process that writes."""
        return self.rank == 0

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its sum over all processes."""
        if self.processes > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def largest(self, value: int, device: torch.device) -> int:
        """Return the largest value of any process; all get the same answer, so none waits for one that stopped."""
        if self.processes == 1:
            return value
        found = torch.tensor(value, device=device)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return int(found)

    def share_step(self, step: int, device: torch.device) -> int:
        """Return rank 0's step."""
        if self.processes == 1:
            return step
        first = torch.tensor(step, device=device)
        dist.broadcast(first, 0)
        return int(first)

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by rank 0's."""
        if self.processes > 1:
            for tensor in tensors:
                whole = tensor.contiguous()
                dist.broadcast(whole, 0)
                tensor.copy_(whole)


@dataclass(frozen=True)
class MicroBatches:
    """Division of a batch over processes, and within each into parts that fit in memory."""

    parallel: Parallel = Parallel()
    accumulate: int = 1

    def __post_init__(self) -> None:
        require(self.accumulate >= 1, f"accumulate must be at least 1, got {self.accumulate}")

    @property
    def total(self) -> int:
        return self.parallel.processes * self.accumulate

    @property
    def local_indices(self) -> range:
        """Return the indices of this process's parts."""
        return range(self.parallel.rank * self.accumulate, (self.parallel.rank + 1) * self.accumulate)

    def rows_of(self, batch: int) -> int:
        """Return the number of rows per part."""
        require(
            batch % self.total == 0,
            f"a batch of {batch} cannot be divided into {self.parallel.processes} processes x {self.accumulate} parts; "
            "choose numbers that divide it",
        )
        return batch // self.total
