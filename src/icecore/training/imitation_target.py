"""The model that circuit imitation imitates: small, random, and made loud enough to have something to say."""

import functools
import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.models import Positions, Sizes, Transformer, initialize
from icecore.tasks import Imitation, Task
from icecore.tasks.plain import RELEASED_SEED


@dataclass(frozen=True)
class Target:
    """Token ids to log-probabilities at the last position.

    SOURCE: the released script: 3 layers, 2 heads; MLP output projections x 20, queries, keys and values x 10,
    unembedding x 100 / sqrt(width). DIFFERS: our own random numbers, so another target of the same law.
    """

    width: int
    vocabulary: int
    length: int

    def __call__(self, tokens: Int64[Tensor, "batch seq"]) -> Float[Tensor, "batch vocab"]:
        model, parameters = target_network(self, tokens.device)
        rows = torch.arange(len(tokens), device=tokens.device)
        last = Positions(rows, torch.full_like(rows, tokens.shape[1] - 1))
        with torch.no_grad():
            return model.logits(parameters, tokens, last).log_softmax(dim=-1)


@functools.lru_cache(maxsize=8)
def target_network(target: Target, device: torch.device) -> tuple[Transformer, dict[str, Tensor]]:
    model = Transformer(width=target.width, layers=3, heads=2)
    parameters = initialize(model, Sizes(target.vocabulary, target.length), RELEASED_SEED)
    for layer in range(model.layers):
        parameters[f"block{layer}.mlp_out.weight"] *= 20
        for part in "qkv":
            parameters[f"block{layer}.{part}.weight"] *= 10
    parameters["unembed"] *= 100 / math.sqrt(target.width)
    return model, {name: value.to(device) for name, value in parameters.items()}


def with_target(task: Task) -> Task:
    """The same task; circuit imitation without a target gets the one of its `target_width`."""
    if not isinstance(task, Imitation) or task.target is not None:
        return task
    return replace(task, target=Target(task.target_width, task.vocabulary, task.length))
