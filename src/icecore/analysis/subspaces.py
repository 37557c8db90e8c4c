"""Causal test of a subspace: accuracy when the residual stream keeps, or loses, its top directions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.analysis.moments import ROWS_AT_ONCE, Moments
from icecore.models import Model, Parameters, device_of, hidden_with
from icecore.tasks import Batch, Task

# directions, neurons: the top ones of the trained model; random: random orthonormal ones; untrained: the top
# directions of the same body with its initial embeddings.
Basis = Literal["directions", "neurons", "random", "untrained"]
Mode = Literal["keep", "remove"]
BASES: tuple[Basis, ...] = ("directions", "neurons", "random", "untrained")
LOGITS_AT_ONCE = 2**26


@dataclass(frozen=True)
class Subspace:
    """Orthonormal directions around a mean."""

    mean: Float[Tensor, " width"]
    basis: Float[Tensor, "width direction"]

    def keep(self, x: Float[Tensor, "*places width"]) -> Float[Tensor, "*places width"]:
        """Project onto the subspace, with the mean elsewhere."""
        return self.mean + self.within(x)

    def remove(self, x: Float[Tensor, "*places width"]) -> Float[Tensor, "*places width"]:
        """Project the subspace out, leaving its mean."""
        return x - self.within(x)

    def within(self, x: Float[Tensor, "*places width"]) -> Float[Tensor, "*places width"]:
        return ((x - self.mean) @ self.basis) @ self.basis.T


def basis_of(kind: Basis, count: int, moments: Moments, untrained: Moments) -> Float[Tensor, "width {count}"]:
    """Return so many directions: of largest variance, neurons, random, or of the untrained network."""
    if kind == "neurons":
        return moments.neurons(count)
    if kind == "random":
        drawn = torch.randn((len(moments.mean), count), generator=torch.Generator().manual_seed(0))
        return torch.linalg.qr(drawn.double()).Q.to(moments.mean.device)
    return (untrained if kind == "untrained" else moments).directions(count)


@torch.no_grad()
def predict_with(
    model: Model,
    parameters: Parameters,
    batch: Batch,
    edits: Mapping[str, Callable[[Tensor], Tensor]],
) -> Int64[Tensor, "batch seq"]:
    """Return the model's answers with some activations edited."""

    def change(name: str, value: Tensor) -> Tensor:
        return edits[name](value) if name in edits else value

    found = []
    tokens = batch.tokens.to(device_of(parameters))
    logits_of_row = model.logits(parameters, tokens[:1]).numel()
    at_once = max(1, min(ROWS_AT_ONCE, LOGITS_AT_ONCE // logits_of_row))
    for part in tokens.split(at_once):
        found.append(model.unembed(parameters, hidden_with(model, parameters, part, change)).argmax(dim=-1))
    return torch.cat(found)


@dataclass(frozen=True)
class AccuracyCurve:
    """Accuracy by number of directions; `shuffled` is that on answers of other items, the chance level."""

    basis: str
    mode: str
    places: tuple[str, ...]
    counts: tuple[int, ...]
    accuracy: tuple[float, ...]
    shuffled: tuple[float, ...]


def accuracy_curve(
    model: Model,
    parameters: Parameters,
    task: Task,
    batch: Batch,
    moments: Mapping[str, Moments],
    untrained: Mapping[str, Moments],
    counts: Sequence[int],
    basis: Basis = "directions",
    mode: Mode = "keep",
    places: Iterable[str] = (),
    on_count: Callable[[], None] | None = None,
) -> AccuracyCurve:
    """Measure accuracy with the residual stream edited at `places` (default: all of `moments` but final).

    `on_count` is called after each number of directions.
    """
    where = tuple(places) or tuple(name for name in moments if name != "final")
    batch = batch.to(device_of(parameters))
    mixed = shuffled_answers(batch)
    right, by_chance = [], []
    for count in counts:
        edits = {}
        for place in where:
            kind = basis_of(basis, count, moments[place], untrained[place])
            subspace = Subspace(moments[place].mean.float(), kind.float())
            edits[place] = subspace.keep if mode == "keep" else subspace.remove
        predictions = predict_with(model, parameters, batch, edits)
        right.append(float(task.accuracies(predictions, batch)["accuracy"]))
        by_chance.append(float(task.accuracies(predictions, mixed)["accuracy"]))
        if on_count is not None:
            on_count()
    return AccuracyCurve(basis, mode, where, tuple(counts), tuple(right), tuple(by_chance))


def shuffled_answers(batch: Batch) -> Batch:
    """Return the same questions with the answers permuted among the scored positions."""
    targets = batch.targets.clone()
    answers = targets[batch.scored]
    order = torch.randperm(len(answers), generator=torch.Generator().manual_seed(0)).to(answers.device)
    targets[batch.scored] = answers[order]
    return Batch(batch.tokens, targets, batch.scored, *batch.parts()[3:])


def counts_up_to(width: int) -> tuple[int, ...]:
    """Return 1, 2, 5, 10, 20, 50, ... and the whole width."""
    steps = [digit * 10**power for power in range(5) for digit in (1, 2, 5)]
    return (*(count for count in steps if count < width), width)
