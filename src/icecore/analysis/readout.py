"""Only U, solved instead of trained: the best linear readout of the frozen random body."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.analysis.moments import in_chunks
from icecore.convex import minimize
from icecore.models import Model, Parameters, device_of
from icecore.tasks import Batch

# Of ridge, times the mean eigenvalue of the features' Gram matrix.
PENALTIES = tuple(10.0**power for power in range(-8, 3))
HELD_OUT = 0.1  # share of the training items that choose the penalty
LOGISTIC_ITERATIONS = 300
LOGISTIC_PENALTY = 1e-6


@dataclass(frozen=True)
class Readout:
    """Accuracies of a solved readout, over scored positions."""

    kind: str
    penalty: float
    train_accuracy: float
    test_accuracy: float
    items: int


@torch.no_grad()
def features_of(
    model: Model, parameters: Parameters, batch: Batch
) -> tuple[Float[Tensor, "place width"], Int64[Tensor, " place"]]:
    """Return the unembedding's inputs at scored positions, and their targets."""
    device = device_of(parameters)
    found = []
    for part in in_chunks(batch):
        rows = part.to(device)
        found.append(model.hidden(parameters, rows.tokens)[rows.scored])
    return torch.cat(found), batch.targets[batch.scored].to(device)


def ridge_readout(model: Model, parameters: Parameters, vocabulary: int, train: Batch, test: Batch) -> Readout:
    """Solve ridge regression to one-hot answers, without a bias, as U has none; held-out items choose the penalty."""
    features, answers = features_of(model, parameters, train)
    kept = max(1, int(len(features) * (1 - HELD_OUT)))
    fitted, chosen_by = slice(None, kept), slice(kept, None)
    scored = [
        (accuracy(weights, features[chosen_by], answers[chosen_by]), penalty)
        for penalty, weights in solutions(features[fitted], answers[fitted], vocabulary, PENALTIES)
    ]
    penalty = max(scored)[1]
    ((_, weights),) = solutions(features, answers, vocabulary, [penalty])
    return made("ridge", penalty, weights, features, answers, features_of(model, parameters, test))


def solutions(
    features: Float[Tensor, "place width"],
    answers: Int64[Tensor, " place"],
    vocabulary: int,
    penalties: Sequence[float],
) -> list[tuple[float, Float[Tensor, "vocab width"]]]:
    """Return the weights for each penalty, from one eigendecomposition."""
    x = features.double()
    gram, cross = x.T @ x, x.T @ F.one_hot(answers, vocabulary).double()
    values, vectors = torch.linalg.eigh(gram)
    rotated, scale = vectors.T @ cross, values.clamp(min=0).mean()
    return [
        (penalty, (vectors @ (rotated / (values.clamp(min=0) + penalty * scale)[:, None])).T.to(features.dtype))
        for penalty in penalties
    ]


def logistic_readout(
    model: Model,
    parameters: Parameters,
    vocabulary: int,
    train: Batch,
    test: Batch,
    on_progress: Callable[[int, int], None] | None = None,
) -> Readout:
    """Minimize cross-entropy, the loss that U is trained with; it is convex, so a solver finds the optimum.

    `on_progress` is called with the number of loss evaluations so far and with the number of iterations. Most
    iterations evaluate the loss once.
    """
    features, answers = features_of(model, parameters, train)
    count = 0

    def loss(weights: Tensor) -> Tensor:
        nonlocal count
        count += 1
        if on_progress is not None:
            on_progress(min(count, LOGISTIC_ITERATIONS), LOGISTIC_ITERATIONS)
        return F.cross_entropy(features @ weights.T, answers) + LOGISTIC_PENALTY * weights.square().sum()

    untrained = torch.zeros((vocabulary, features.shape[1]), device=features.device)
    best = minimize(loss, untrained, LOGISTIC_ITERATIONS, least_gradient=1e-6)
    return made("logistic", LOGISTIC_PENALTY, best, features, answers, features_of(model, parameters, test))


def made(
    kind: str,
    penalty: float,
    weights: Float[Tensor, "vocab width"],
    features: Float[Tensor, "place width"],
    answers: Int64[Tensor, " place"],
    test: tuple[Float[Tensor, "other width"], Int64[Tensor, " other"]],
) -> Readout:
    return Readout(kind, penalty, accuracy(weights, features, answers), accuracy(weights, *test), len(features))


def accuracy(
    weights: Float[Tensor, "vocab width"], features: Float[Tensor, "place width"], answers: Int64[Tensor, " place"]
) -> float:
    return float(((features @ weights.T).argmax(dim=1) == answers).double().mean())
