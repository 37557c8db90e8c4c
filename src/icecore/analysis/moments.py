"""Mean and covariance of activations, accumulated over batches in constant memory."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from icecore.errors import require
from icecore.models import Model, Parameters, device_of, hidden_with
from icecore.seeding import make_generator
from icecore.tasks import Batch, Task

# all: every position, padding too; read: up to the last scored one; scored: scored ones; last: the last scored one.
PooledPositions = Literal["all", "read", "scored", "last"]
POSITIONS: tuple[PooledPositions, ...] = ("all", "read", "scored", "last")
ROWS_AT_ONCE = 250
SCORES_AT_ONCE = 2**26  # attention scores of one layer; long windows have many


class Moments:
    """Mean and covariance of vectors. Sums are float64; products in a batch, centred first, have the vectors' type."""

    def __init__(self, width: int, device: torch.device | str = "cpu") -> None:
        self.count = 0
        self.mean = torch.zeros(width, dtype=torch.float64, device=device)
        self.scatter = torch.zeros((width, width), dtype=torch.float64, device=device)
        self.eigenvectors: Float[Tensor, "width width"] | None = None  # computed on demand

    def add(self, values: Float[Tensor, "item width"]) -> None:
        """Add more vectors. SOURCE: Chan, Golub & LeVeque 1979, the update of two sets' moments."""
        if len(values) == 0:
            return
        mean = values.double().mean(dim=0)
        centred = values - mean.to(values.dtype)
        total = self.count + len(values)
        shift = mean - self.mean
        self.scatter += (centred.T @ centred).double()
        self.scatter += shift.outer(shift) * (self.count * len(values) / total)
        self.mean += shift * (len(values) / total)
        self.count = total
        self.eigenvectors = None

    @property
    def covariance(self) -> Float[Tensor, "width width"]:
        return self.scatter / max(1, self.count)

    def directions(self, count: int) -> Float[Tensor, "width {count}"]:
        """Return the eigenvectors of the largest eigenvalues, the largest first."""
        vectors = self.eigenvectors
        if vectors is None:
            vectors = self.eigenvectors = torch.linalg.eigh(self.scatter).eigenvectors.flip(1)
        return vectors[:, :count]

    def neurons(self, count: int) -> Float[Tensor, "width {count}"]:
        """Return the coordinates of largest variance, as unit vectors."""
        top = self.scatter.diagonal().topk(count).indices
        return torch.eye(len(self.mean), dtype=self.scatter.dtype, device=self.scatter.device)[:, top]


@dataclass(frozen=True)
class Explained:
    """Shares of variance in the top directions and in the top neurons."""

    directions: float
    neurons: float


def explained(moments: Moments, count: int = 10) -> Explained:
    """Return the explained variance. SOURCE: Table 4, with 10 directions."""
    count = min(count, len(moments.mean))
    total = moments.scatter.trace()
    if total <= 0:
        return Explained(0.0, 0.0)
    variances = torch.linalg.eigvalsh(moments.scatter), moments.scatter.diagonal()
    return Explained(*(float(each.topk(count).values.sum() / total) for each in variances))


def streams_of(model: Model) -> tuple[str, ...]:
    """Return the residual stream's activations: in a transformer Table 4's Emb, L1, L2, and after the final norm."""
    require(
        bool(model.streams),
        f"{model.name} has no residual stream to measure: list (batch, seq, width) activations in `streams`",
    )
    return model.streams


def chosen(batch: Batch, positions: PooledPositions) -> Bool[Tensor, "batch seq"]:
    column = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
    if positions == "all":
        return torch.ones_like(batch.scored)
    if positions == "scored":
        return batch.scored
    lengths = batch.lengths[:, None]
    return column < lengths if positions == "read" else column == lengths - 1


def training_items(task: Task, count: int, name: str) -> Batch:
    """Return up to `count` training items, the same for every run; of a finite set, at most all of them."""
    train_set = task.train_set()
    return task.sample(count if train_set is None else min(count, len(train_set)), make_generator(0, name))


def moments_of(
    model: Model,
    parameters: Parameters,
    batches: Batch | Iterable[Batch],
    positions: PooledPositions = "read",
) -> dict[str, Moments]:
    """Return the moments of the residual stream by activation, over the chosen positions of all batches."""
    return moments_by_positions(model, parameters, batches, [positions])[positions]


def scores_of_row(model: Model, batch: Batch) -> int:
    """Return the number of attention scores of a row in one layer; a network of transformers may have no heads."""
    return (getattr(model, "heads", None) or 1) * batch.tokens.shape[1] ** 2


def in_chunks(batch: Batch) -> Iterator[Batch]:
    """Split a batch so that its activations fit in memory."""
    return (batch[begin : begin + ROWS_AT_ONCE] for begin in range(0, len(batch), ROWS_AT_ONCE))


@torch.no_grad()
def moments_by_positions(
    model: Model,
    parameters: Parameters,
    batches: Batch | Iterable[Batch],
    choices: Sequence[PooledPositions] = POSITIONS,
) -> dict[PooledPositions, dict[str, Moments]]:
    """Return `moments_of` for several choices of positions, from one pass."""
    device = device_of(parameters)
    wanted = streams_of(model)
    found: dict[PooledPositions, dict[str, Moments]] = {
        each: {place: Moments(model.width, device) for place in wanted} for each in choices
    }
    for batch in [batches] if isinstance(batches, Batch) else batches:
        at_once = max(1, min(ROWS_AT_ONCE, SCORES_AT_ONCE // scores_of_row(model, batch)))
        for begin in range(0, len(batch), at_once):
            rows = batch[begin : begin + at_once].to(device)

            def take(name: str, value: Tensor, rows: Batch = rows) -> Tensor:
                if name in wanted:
                    for each in choices:
                        found[each][name].add(value[chosen(rows, each)])
                return value

            hidden_with(model, parameters, rows.tokens, take)
    return found
