"""Round shapes up so that they repeat: a captured CUDA graph serves one shape."""

import math

from jaxtyping import Int64
from torch import Tensor, where


class ShapeBuckets:
    """Rounds the sizes of steps up. `group` consecutive steps of an epoch get one size."""

    def __init__(self, steps_per_epoch: int, group: int) -> None:
        self.steps_per_epoch, self.group = steps_per_epoch, group
        self.times: Int64[Tensor, " time"] | None = None

    def of_nodes(self, needed: list[int]) -> list[int]:
        """Return per step the most nodes that its group needs, rounded up by at most 1/32."""
        sizes: list[int] = []
        for first in range(0, len(needed), self.steps_per_epoch):
            epoch = needed[first : first + self.steps_per_epoch]
            for begin in range(0, len(epoch), self.group):
                members = epoch[begin : begin + self.group]
                unit = 1 << max(4, (max(members) // 64).bit_length())
                sizes += [-(-max(members) // unit) * unit] * len(members)
        return sizes

    def of_times(self, reached: Int64[Tensor, "step time"], rows: int) -> Int64[Tensor, " time"]:
        """Return the most sequences that reach each time in any step, plus a margin: one size for all steps.

        The number that reach a time is a sum of `rows` independent draws, whose standard deviation is at most half the
        margin. So few steps exceed the most so far plus the margin; then the size grows.
        """
        most = reached.amax(dim=0)
        if self.times is None or bool((most > self.times).any()):
            with_room = where(most > 0, (most + math.isqrt(rows)).clamp(max=rows), 0)
            self.times = with_room if self.times is None else with_room.maximum(self.times)
        return self.times
