"""A batch made ready for a model: what the fast paths read, and what the logits are compared with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.models import LSTM, Model, Positions, Transformer
from icecore.models.lstm import PackedSequences, pack_sequences
from icecore.models.packing import Packing, pack
from icecore.tasks import Batch


@dataclass(frozen=True)
class Answers:
    """What the logits are compared with, in their order."""

    places: Int64[Tensor, "*step query"]  # in the flattened batch
    targets: Int64[Tensor, "*step query"]
    weight: Float[Tensor, "*step query"]  # 0 where nothing is scored
    target_log_probs: Float[Tensor, "*step query vocab"] | None = None

    @staticmethod
    def at(places: Int64[Tensor, "*step query"], weight: Float[Tensor, "*step query"], batch: Batch) -> "Answers":
        """Those of a batch; with several steps, they follow each other in it."""
        row = places // batch.tokens.shape[1]
        log_probs = None if batch.target_log_probs is None else batch.target_log_probs[row]
        return Answers(places, batch.targets.flatten()[places], weight, log_probs)

    def part(self, index: int | slice) -> "Answers":
        log_probs = None if self.target_log_probs is None else self.target_log_probs[index]
        return Answers(self.places[index], self.targets[index], self.weight[index], log_probs)


@dataclass(frozen=True)
class Work:
    """What one step computes."""

    inputs: Packing | PackedSequences | Batch
    answers: Answers


class Works(Protocol):
    """The work of consecutive steps of one batch size."""

    def __len__(self) -> int: ...

    def step(self, index: int) -> Work: ...


def works(
    model: Model,
    vocabulary: int,
    batch: Batch,
    rows: int,
    sizes: Callable[[list[int]], list[int]] | None = None,
) -> Works:
    """A long batch as consecutive steps of `rows` each, in the form that the model's fast path reads."""
    if isinstance(model, Transformer):
        return PackedWorks(vocabulary, batch, rows, sizes)
    if isinstance(model, LSTM):
        return SequenceWorks(batch, rows)
    return PlainWorks(batch, rows)


def whole(model: Model, vocabulary: int, batch: Batch) -> Work:
    """All of a batch as one step."""
    return works(model, vocabulary, batch, len(batch)).step(0)


def plain_work(batch: Batch) -> Work:
    """For the plain twin, and for models that have no faster way."""
    places = batch.scored.flatten().nonzero()[:, 0]
    return Work(batch, Answers.at(places, torch.ones_like(places, dtype=torch.float32), batch))


def scored_positions(batch: Batch) -> Positions:
    return Positions(*batch.scored.nonzero(as_tuple=True))


class PackedWorks:
    """Steps of a transformer."""

    def __init__(
        self, vocabulary: int, batch: Batch, rows: int, sizes: Callable[[list[int]], list[int]] | None
    ) -> None:
        tokens, scored = (part.unflatten(0, (-1, rows)) for part in (batch.tokens, batch.scored))
        self.packed = pack(tokens, scored, vocabulary, sizes)
        places = self.packed.packing.places(tokens.shape[2])
        before = torch.arange(len(self.packed), device=places.device)[:, None] * tokens[0].numel()
        self.answers = Answers.at(places + before, self.packed.packing.weight, batch)

    def __len__(self) -> int:
        return len(self.packed)

    def step(self, index: int) -> Work:
        return Work(self.packed.step(index), self.answers.part(index))


class SequenceWorks:
    """Steps of an LSTM."""

    def __init__(self, batch: Batch, rows: int) -> None:
        self.inputs = pack_sequences(*(part.unflatten(0, (-1, rows)) for part in (batch.tokens, batch.scored)))
        self.answers = plain_work(batch).answers
        self.begins = [0]
        for inputs in self.inputs:
            self.begins.append(self.begins[-1] + len(inputs.scored))

    def __len__(self) -> int:
        return len(self.inputs)

    def step(self, index: int) -> Work:
        return Work(self.inputs[index], self.answers.part(slice(self.begins[index], self.begins[index + 1])))


class PlainWorks:
    """Steps of any other model."""

    def __init__(self, batch: Batch, rows: int) -> None:
        self.batch, self.rows = batch, rows

    def __len__(self) -> int:
        return len(self.batch) // self.rows

    def step(self, index: int) -> Work:
        return plain_work(self.batch[index * self.rows : (index + 1) * self.rows])
