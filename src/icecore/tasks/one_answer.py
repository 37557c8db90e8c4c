"""Tasks with one scored position per item: drawn in a compact form, expanded once test items are dropped."""

import abc
from dataclasses import dataclass

import torch
from jaxtyping import Int64, Integer
from torch import Tensor

from icecore.tasks.batch import Batch, Rows
from icecore.tasks.holdout import HeldOut
from icecore.tasks.plain import PlainTask


@dataclass(frozen=True)
class OneAnswer(Rows):
    """Compact batch. Zero is used only for padding, so tokens alone distinguish all items."""

    tokens: Integer[Tensor, "batch seq"]  # in a small type; may have extra columns of zeros
    ends: Int64[Tensor, " batch"]  # the scored position
    answers: Int64[Tensor, " batch"]

    def parts(self) -> tuple[Tensor, ...]:
        return self.tokens, self.ends, self.answers

    def find(self, held_out: HeldOut) -> Int64[Tensor, " found"]:
        return held_out.find(self.tokens)

    def expand(self, width: int, /) -> Batch:
        place = torch.arange(len(self), device=self.tokens.device) * width + self.ends
        targets = torch.zeros((len(self), width), dtype=torch.int64, device=place.device)
        targets.put_(place, self.answers)
        scored = torch.zeros((len(self), width), dtype=torch.bool, device=place.device)
        scored.put_(place, torch.ones_like(place, dtype=torch.bool))
        return Batch(self.tokens[:, :width].long(), targets, scored)


class OneAnswerTask(PlainTask):
    """Plain task that defines `draw_compact` instead of `draw`."""

    @abc.abstractmethod
    def draw_compact(self, count: int, generator: torch.Generator) -> OneAnswer:
        """Draw `count` items on the generator's device, with tensor operations."""

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        return self.draw_compact(count, generator).expand(self.max_length)
