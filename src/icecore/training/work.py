"""A batch made ready for a model: what the fast paths read, and what the logits are compared with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.models import LSTM, Model, Positions, Transformer, computes_as
from icecore.models.dense import SHORTEST, Windows
from icecore.models.lstm import PackedSequences, pack_sequences, reached
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

    inputs: Packing | Windows | PackedSequences | Batch
    answers: Answers


class Works(Protocol):
    """The work of consecutive steps of one batch size."""

    def __len__(self) -> int: ...

    def step(self, index: int) -> Work: ...


class Rounding(Protocol):
    """Rounds the sizes of steps up, so that they repeat. Without it, each step has the size that it needs."""

    def of_nodes(self, needed: list[int], /) -> list[int]: ...

    def of_times(self, reached: Int64[Tensor, "step time"], rows: int, /) -> Int64[Tensor, " time"]: ...


def works(
    model: Model,
    vocabulary: int,
    batch: Batch,
    rows: int,
    sizes: Rounding | None = None,
) -> Works:
    """A long batch as consecutive steps of `rows` each, in the form that the model's fast path reads."""
    if computes_as(model, Transformer):
        if batch.tokens.shape[1] >= SHORTEST and bool(batch.scored.all()):
            return WindowWorks(batch, rows)
        return PackedWorks(vocabulary, batch, rows, None if sizes is None else sizes.of_nodes)
    if computes_as(model, LSTM):
        return SequenceWorks(batch, rows, sizes)
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


class WindowWorks:
    """Steps of a transformer that are scored at every position."""

    def __init__(self, batch: Batch, rows: int) -> None:
        tokens = batch.tokens.unflatten(0, (-1, rows))
        places = torch.arange(tokens.numel(), device=tokens.device).view(len(tokens), -1)
        weight = torch.ones_like(places, dtype=torch.float32)
        self.windows, self.answers = Windows(tokens, weight), Answers.at(places, weight, batch)

    def __len__(self) -> int:
        return len(self.windows.tokens)

    def step(self, index: int) -> Work:
        return Work(self.windows.step(index), self.answers.part(index))


class SequenceWorks:
    """Steps of an LSTM: of one size, packed all at once, or each of its own size, packed when it is taken."""

    def __init__(self, batch: Batch, rows: int, sizes: Rounding | None) -> None:
        self.batch = batch
        self.tokens, self.scored = (part.unflatten(0, (-1, rows)) for part in (batch.tokens, batch.scored))
        self.needed = reached(self.scored)
        self.packed = None if sizes is None else self.pack(0, len(self), sizes.of_times(self.needed, rows))

    def pack(self, begin: int, end: int, batch_sizes: Int64[Tensor, " time"]) -> tuple[PackedSequences, Answers]:
        packed, places = pack_sequences(self.tokens[begin:end], self.scored[begin:end], batch_sizes)
        before = torch.arange(begin, end, device=places.device)[:, None] * self.tokens[0].numel()
        return packed, Answers.at(places + before, packed.weight, self.batch)

    def __len__(self) -> int:
        return len(self.tokens)

    def step(self, index: int) -> Work:
        if self.packed is None:
            packed, answers = self.pack(index, index + 1, self.needed[index])
            return Work(packed.step(0), answers.part(0))
        packed, answers = self.packed
        return Work(packed.step(index), answers.part(index))


class PlainWorks:
    """Steps of any other model."""

    def __init__(self, batch: Batch, rows: int) -> None:
        self.batch, self.rows = batch, rows

    def __len__(self) -> int:
        return len(self.batch) // self.rows

    def step(self, index: int) -> Work:
        return plain_work(self.batch[index * self.rows : (index + 1) * self.rows])
