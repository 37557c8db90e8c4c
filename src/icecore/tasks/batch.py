"""Items, and batches of items as tensors."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64, Integer
from torch import Tensor

from icecore.tasks.holdout import HeldOut


class Item(NamedTuple):
    """One question with its answer, as token ids without padding."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]


@dataclass(frozen=True)
class Rows(abc.ABC):
    """Right-padded sequences from position 0; `expand` turns them into a batch."""

    tokens: Integer[Tensor, "batch seq"]

    def __len__(self) -> int:
        return len(self.tokens)

    @abc.abstractmethod
    def parts(self) -> tuple[Tensor, ...]:
        """Return the tensors, each with the batch as its first axis."""

    @abc.abstractmethod
    def find(self, held_out: HeldOut) -> Int64[Tensor, " found"]:
        """Return the indices of held-out sequences."""

    @abc.abstractmethod
    def expand(self, width: int, /) -> "Batch":
        """Return the batch, `width` tokens wide."""


@dataclass(frozen=True)
class Batch(Rows):
    """Right-padded sequences from position 0; the logits at a scored position predict its target.

    Loss, accuracy and model read nothing after a sequence's last scored position.
    """

    tokens: Int64[Tensor, "batch seq"]
    targets: Int64[Tensor, "batch seq"]  # the token predicted *at* this position; 0 where not scored
    scored: Bool[Tensor, "batch seq"]
    target_log_probs: Float[Tensor, "batch vocab"] | None = None  # circuit imitation only

    def __getitem__(self, rows: slice | Tensor) -> "Batch":
        return Batch(*(part[rows] for part in self.parts()))

    def to(self, device: torch.device | str) -> "Batch":
        return Batch(*(part.to(device) for part in self.parts()))

    def parts(self) -> tuple[Tensor, ...]:
        parts = (self.tokens, self.targets, self.scored)
        return parts if self.target_log_probs is None else (*parts, self.target_log_probs)

    def find(self, held_out: HeldOut) -> Int64[Tensor, " found"]:
        return held_out.find(self.tokens, self.scored)

    def expand(self, _width: int, /) -> "Batch":
        return self

    @staticmethod
    def concatenate(batches: "Sequence[Batch]") -> "Batch":
        return Batch(*map(torch.cat, zip(*(batch.parts() for batch in batches), strict=True)))

    @property
    def scored_tokens(self) -> "ScoredTokens":
        """Return what is scored, one token per row, in the order of the items."""
        items, positions = self.scored.nonzero(as_tuple=True)
        places = (self.scored.cumsum(dim=1) - 1)[items, positions]
        return ScoredTokens(self.tokens, items, positions, places, self.targets[items, positions])

    @property
    def lengths(self) -> Int64[Tensor, " batch"]:
        """Return the number of tokens read per sequence: up to the last scored position."""
        positions = torch.arange(1, self.scored.shape[1] + 1, device=self.scored.device)
        return (self.scored * positions).amax(dim=1)


class ScoredTokens(NamedTuple):
    """The scored tokens of a batch, one per row."""

    tokens: Int64[Tensor, "batch seq"]  # the batch's tokens
    items: Int64[Tensor, " scored"]  # rows of the batch
    positions: Int64[Tensor, " scored"]
    places: Int64[Tensor, " scored"]  # 0 for an item's first answer token, 1 for the second, and so on
    targets: Int64[Tensor, " scored"]
