"""Many seeds of one model as one program. Only parameters have a seed axis; a batch serves all seeds."""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from icecore.models import Model, Parameters, Positions, Sizes, Transformer, initialize, trained_names
from icecore.models.packed import pack, packed_logits
from icecore.tasks import Batch


class Population:
    """The parameters of several seeds, stacked, in two dicts: what trains and what is frozen."""

    def __init__(
        self, model: Model, sizes: Sizes, seeds: tuple[int, ...], trainable: str, device: torch.device
    ) -> None:
        self.model, self.sizes, self.seeds = model, sizes, seeds
        names = set(trained_names(model, sizes, trainable))
        each = [initialize(model, sizes, seed) for seed in seeds]
        stacked = {name: torch.stack([one[name] for one in each]).to(device) for name in each[0]}
        self.trained = {name: value.requires_grad_() for name, value in stacked.items() if name in names}
        self.frozen = {name: value for name, value in stacked.items() if name not in names}

    def parameters(self, index: int) -> dict[str, Tensor]:
        """The parameters of one seed."""
        return {name: value[index] for name, value in {**self.trained, **self.frozen}.items()}

    def counts(self) -> tuple[int, int]:
        """How many parameters of one seed train, and how many are frozen."""

        def count(part: Mapping[str, Tensor]) -> int:
            return sum(value[0].numel() for value in part.values())

        return count(self.trained), count(self.frozen)

    def logits(self, batch: Batch, plain: bool = False) -> Float[Tensor, "seed scored vocab"]:
        """Each seed's logits at the scored positions, row by row; `plain` computes all of them and picks."""
        model = self.model
        if isinstance(model, Transformer) and not plain:
            packing = pack(batch.tokens, batch.scored)
            return self.for_each_seed(lambda one: packed_logits(model, one, packing))
        at = scored_positions(batch)
        return self.for_each_seed(lambda one: model.logits(one, batch.tokens, at))

    def for_each_seed(self, function: Callable[[Parameters], Tensor]) -> Float[Tensor, "seed ..."]:
        """A function of one network's parameters, for all seeds at once."""
        if len(self.seeds) == 1 or not self.model.vectorizes:
            return torch.stack([function(self.parameters(index)) for index in range(len(self.seeds))])
        return torch.func.vmap(function)({**self.trained, **self.frozen})


def scored_positions(batch: Batch) -> Positions:
    return Positions(*batch.scored.nonzero(as_tuple=True))


def losses(logits: Float[Tensor, "seed scored vocab"], batch: Batch) -> Float[Tensor, " seed"]:
    """Each seed's mean over scored positions: cross-entropy, or KL divergence from a target's distribution."""
    if batch.target_log_probs is not None:
        log_probs = logits.log_softmax(dim=-1)
        goal = batch.target_log_probs[scored_positions(batch).rows]
        return (goal.exp() * (goal - log_probs)).sum(dim=-1).mean(dim=-1)
    goal = batch.targets[batch.scored].expand(len(logits), -1)
    return F.cross_entropy(logits.flatten(0, 1), goal.flatten(), reduction="none").view(len(logits), -1).mean(dim=-1)


def clip_each_seed(parameters: list[Tensor], largest: float) -> Float[Tensor, " seed"]:
    """Scale each seed's gradient to a norm of at most `largest`; the norms before that."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    squares = [gradient.flatten(1).square().sum(dim=1) for gradient in gradients]
    norms = torch.stack(squares).sum(dim=0).sqrt()
    scale = (largest / (norms + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.view(-1, *[1] * (gradient.ndim - 1)))
    return norms


@torch.no_grad()
def predict(
    population: Population, batch: Batch, rows_at_once: int = 500, on_rows: Callable[[int], None] | None = None
) -> tuple[Tensor, Tensor]:
    """Each seed's argmax at scored positions (0 elsewhere), as (seed, batch, seq), and its loss.

    `on_rows` is told how many rows are done.
    """
    seeds = len(population.seeds)
    predictions = torch.zeros((seeds, *batch.tokens.shape), dtype=torch.int64, device=batch.tokens.device)
    total = torch.zeros(seeds, device=batch.tokens.device)
    places = 0
    for start in range(0, len(batch), rows_at_once):
        part = batch[start : start + rows_at_once]
        at = scored_positions(part)
        logits = population.logits(part)
        predictions[:, at.rows + start, at.columns] = logits.argmax(dim=-1)
        total += losses(logits, part) * len(at.rows)
        places += len(at.rows)
        if on_rows is not None:
            on_rows(start + len(part))
    return predictions, total / places
