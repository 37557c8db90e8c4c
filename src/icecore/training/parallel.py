"""Data parallel training by `torchrun`: each process computes a part of every batch, and all take the same step."""

import atexit
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from icecore.errors import require


@dataclass(frozen=True)
class Parallel:
    """One process of several, which hold the same parameters; alone, all of it does nothing."""

    rank: int = 0
    processes: int = 1

    @staticmethod
    def join(device: torch.device) -> "Parallel":
        """The others that `torchrun` has started, or nobody."""
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
        """The first one writes; the others are silent."""
        return self.rank == 0

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its sum over all processes."""
        if self.processes > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def is_true_anywhere(self, flag: bool, device: torch.device) -> bool:
        """All get the same answer, at the same step: what one alone stops at, the others would wait for."""
        if self.processes == 1:
            return flag
        found = torch.tensor(float(flag), device=device)
        dist.all_reduce(found)
        return bool(found > 0)

    def share(self, step: int, tensors: Mapping[str, Tensor], device: torch.device) -> int:
        """The first one's step and tensors, for all."""
        if self.processes == 1:
            return step
        first = torch.tensor(step, device=device)
        for tensor in (first, *tensors.values()):
            whole = tensor.contiguous()
            dist.broadcast(whole, 0)
            tensor.copy_(whole)
        return int(first)


@dataclass(frozen=True)
class Parts:
    """How a batch is divided: over processes, and within each into what fits its memory."""

    parallel: Parallel = Parallel()
    accumulate: int = 1

    def __post_init__(self) -> None:
        require(self.accumulate >= 1, f"accumulate must be at least 1, got {self.accumulate}")

    @property
    def count(self) -> int:
        return self.parallel.processes * self.accumulate

    @property
    def mine(self) -> range:
        """This process's parts of a batch."""
        return range(self.parallel.rank * self.accumulate, (self.parallel.rank + 1) * self.accumulate)

    def rows_of(self, batch: int) -> int:
        """The rows of one part."""
        require(
            batch % self.count == 0,
            f"a batch of {batch} cannot be divided into {self.parallel.processes} processes x {self.accumulate} parts; "
            "choose numbers that divide it",
        )
        return batch // self.count
