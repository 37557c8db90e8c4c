"""Two networks on the same items: activations exchanged, compared by CKA and by principal angles, and mixed weights."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from icecore.analysis.evaluation import HookOf, accuracy_and_loss, chunks_of
from icecore.analysis.moments import Moments, PooledPositions, chosen, streams_of
from icecore.models import Model, ModelDims, Parameters, device_of, hidden_with, names_of_half
from icecore.models.base import Hook
from icecore.tasks import Batch, Task


def joined(model: Model, dims: ModelDims, embeddings: Parameters, body: Parameters) -> dict[str, Tensor]:
    """Return the embeddings of one network around the body of another."""
    of_body = set(names_of_half(model, dims, "body"))
    return {name: (body if name in of_body else embeddings)[name] for name in model.specs(dims)}


def displacement(before: Parameters, after: Parameters, names: Iterable[str]) -> float:
    """Return how far matrices have moved, |after - before| / |before|. Two independent draws are sqrt(2) apart."""
    matrices = [name for name in names if before[name].dim() > 1]
    moved = sum(float((after[name] - before[name]).double().square().sum()) for name in matrices)
    size = sum(float(before[name].double().square().sum()) for name in matrices)
    return (moved / size) ** 0.5 if size else 0.0


def on_the_line(first: Parameters, second: Parameters, share: float) -> dict[str, Tensor]:
    """Return the weights at this share of the way from one network to another."""
    return {name: first[name].lerp(second[name], share) for name in first}


@dataclass(frozen=True)
class Line:
    """Loss and accuracy along the straight line between the weights of two networks, its ends included."""

    losses: tuple[float, ...]
    accuracies: tuple[float, ...]

    @property
    def barrier(self) -> float:
        """Return the most that the loss lies above the straight line between its ends; at least 0."""
        last = len(self.losses) - 1
        between = [
            loss - (self.losses[0] * (last - index) + self.losses[-1] * index) / last
            for index, loss in enumerate(self.losses)
        ]
        return max(0.0, *between)


def line_between(
    model: Model, first: Parameters, second: Parameters, task: Task, batch: Batch, points: int = 11
) -> Line:
    """Measure the line at `points` equal distances. SOURCE: linear mode connectivity, arXiv 2211.08422."""
    found = [
        accuracy_and_loss(model, on_the_line(first, second, index / (points - 1)), task, batch)
        for index in range(points)
    ]
    return Line(tuple(loss for _, loss in found), tuple(accuracy for accuracy, _ in found))


def activations_from(model: Model, source: Parameters, place: str) -> HookOf:
    """Return hooks that replace one activation by another network's on the same items.

    SOURCE: cross-model activation patching, arXiv 2402.14811.
    """

    def hook_of(part: Batch) -> Hook:
        kept: list[Tensor] = []

        def keep(name: str, value: Tensor) -> Tensor:
            if name == place:
                kept.append(value)
            return value

        hidden_with(model, source, part.tokens, keep)
        return lambda name, value: kept[0] if name == place else value

    return hook_of


@dataclass(frozen=True)
class PairMoments:
    """Moments of one activation in two networks, and their cross-covariance, unscaled."""

    first: Moments
    second: Moments
    cross: Float[Tensor, "width width"]

    @property
    def cka(self) -> float:
        """Return the linear CKA: 1 if the activations are equal up to a rotation and a factor.

        SOURCE: Kornblith et al. 2019. It can move without any change of function (arXiv 2210.16156).
        """
        size = self.first.scatter.norm() * self.second.scatter.norm()
        return float(self.cross.square().sum() / size) if size > 0 else 0.0

    def subspace_overlap(self, count: int) -> float:
        """Return the mean squared cosine of the principal angles between the top `count` directions."""
        first, second = (moments.directions(count) for moments in (self.first, self.second))
        return float((first.T @ second).square().sum() / first.shape[1])


@torch.no_grad()
def pair_moments(
    model: Model, first: Parameters, second: Parameters, batch: Batch, positions: PooledPositions = "read"
) -> dict[str, PairMoments]:
    """Return the moments of both networks' residual streams on the same items, accumulated in constant memory."""
    device, wanted, width = device_of(first), streams_of(model), model.width
    both = {place: Moments(2 * width, device) for place in wanted}
    for _, rows in chunks_of(model, batch.to(device)):
        values: dict[str, list[Tensor]] = {place: [] for place in wanted}

        def take(name: str, value: Tensor, rows: Batch = rows, values: Mapping[str, list[Tensor]] = values) -> Tensor:
            if name in values:
                values[name].append(value[chosen(rows, positions)])
            return value

        for parameters in (first, second):
            hidden_with(model, parameters, rows.tokens, take)
        for place, pair in values.items():
            both[place].add(torch.cat(pair, dim=1))
    return {place: split(moments, width) for place, moments in both.items()}


def split(moments: Moments, width: int) -> PairMoments:
    """Return the parts of the moments of two concatenated vectors."""

    def part(own: slice) -> Moments:
        made = Moments(width, moments.mean.device)
        made.count, made.mean, made.scatter = moments.count, moments.mean[own], moments.scatter[own, own]
        return made

    first, second = slice(None, width), slice(width, None)
    return PairMoments(part(first), part(second), moments.scatter[first, second])
