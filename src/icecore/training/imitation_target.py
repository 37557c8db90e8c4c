"""The model that circuit imitation imitates: small, random, and made loud enough to have something to say."""

import functools
import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.errors import require
from icecore.models import ModelDims, Positions, Transformer, initialize
from icecore.seeding import make_generator
from icecore.tasks import Imitation, Task
from icecore.tasks.imitation import TargetInit, divergences, entropies, mean_output
from icecore.tasks.plain import RELEASED_SEED
from icecore.training.precision import Precision

LAYERS, HEADS = 3, 2  # SOURCE: section 6.2; heads from the released script
MOST_VALUES = 1 << 25  # of one activation at once: 128 MiB, whatever the number of inputs


@dataclass(frozen=True)
class Scaling:
    """What the weights of a target are multiplied with, beside the unembedding's 100 / sqrt(width).

    Biases begin at 0, so a factor of theirs, of which the text speaks, would do nothing; there is none here.
    """

    base: Literal["released", "paper"]  # the initialization that is scaled
    q: float
    k: float
    v: float
    mlp_in: float
    mlp_out: float


# With three layers the MLP's matrices have .02 / sqrt(6) before, but for the scripts' input weights, which have .02.
SCALINGS: dict[TargetInit, Scaling] = {
    # SOURCE: the released script: queries, keys and values to .2, the MLP's output projection to .4 / sqrt(6).
    "released": Scaling("released", q=10, k=10, v=10, mlp_in=1, mlp_out=20),
    # SOURCE: section 6.2: queries and keys to .2, all of the MLP to .4 / sqrt(6); values stay at .02.
    "text": Scaling("paper", q=10, k=10, v=1, mlp_in=20, mlp_out=20),
    # SOURCE: appendix D.2.2: queries, keys and values "scaled up by 10x: changed to 0.4", which is 20 times .02; the
    # number is taken here, not the factor. Else as the text: its 2 / sqrt(n) of the unembedding is .02 x 100 / sqrt(n).
    "appendix": Scaling("paper", q=20, k=20, v=20, mlp_in=20, mlp_out=20),
}


@dataclass(frozen=True)
class Target:
    """Token ids to log-probabilities at the last position, in float32 whatever the run's precision.

    DIFFERS: our own random numbers, so another target of the same law.
    """

    width: int
    vocabulary: int
    length: int
    init: TargetInit = "released"

    def __call__(self, tokens: Int64[Tensor, "batch seq"]) -> Float[Tensor, "batch vocab"]:
        rows = max(1, MOST_VALUES // (tokens.shape[1] * max(4 * self.width, HEADS * tokens.shape[1])))
        with torch.no_grad(), Precision.fp32.in_matrix_products():
            return torch.cat([self.outputs(part) for part in tokens.split(rows)])

    def outputs(self, tokens: Int64[Tensor, "batch seq"]) -> Float[Tensor, "batch vocab"]:
        model, parameters = target_network(self, tokens.device)
        rows = torch.arange(len(tokens), device=tokens.device)
        last = Positions(rows, torch.full_like(rows, tokens.shape[1] - 1))
        return model.logits(parameters, tokens, last).log_softmax(dim=-1)


@functools.lru_cache(maxsize=32)
def target_network(target: Target, device: torch.device) -> tuple[Transformer, dict[str, Tensor]]:
    scaling = SCALINGS[target.init]
    model = Transformer(width=target.width, layers=LAYERS, heads=HEADS, init=scaling.base)
    parameters = initialize(model, ModelDims(target.vocabulary, target.length), RELEASED_SEED)
    for layer in range(model.layers):
        for part in ("q", "k", "v", "mlp_in", "mlp_out"):
            parameters[f"block{layer}.{part}.weight"] *= getattr(scaling, part)
    parameters["unembed"] *= 100 / math.sqrt(target.width)
    return model, {name: value.to(device) for name, value in parameters.items()}


def with_target(task: Task) -> Task:
    """The same task; circuit imitation without a target gets the one of its `target_width` and `target_init`."""
    if not isinstance(task, Imitation) or task.target is not None:
        return task
    return replace(task, target=Target(task.target_width, task.vocabulary, task.length, task.target_init))


@dataclass(frozen=True)
class TargetNumbers:
    """What a target says, over random inputs, in nats: its entropy, how far the outputs of two inputs are apart.

    `uniform` and `mean_output` are how far its outputs are from answers that no input changes.
    """

    init: TargetInit
    width: int
    entropy: float
    pairwise_kl: float
    uniform: float
    mean_output: float


def target_numbers(task: Imitation, items: int) -> TargetNumbers:
    """SOURCE: appendix D.2.2 reports the first two. Pairs are inputs of one half with those of the other."""
    require(items >= 2, f"pairs need at least 2 items, got {items}")
    drawn = task.outputs(with_target(task).draw(items // 2 * 2, make_generator(0, "target numbers")))
    first, second = drawn.chunk(2)
    entropy = float(entropies(drawn).mean())
    mean = (mean_output(second), mean_output(first))  # of the other half: a mean is nearer to what it was taken over
    return TargetNumbers(
        task.target_init,
        task.target_width,
        entropy,
        float(divergences(first, second).mean()),
        math.log(task.vocabulary) - entropy,
        float(torch.cat([divergences(each, of) for each, of in zip((first, second), mean, strict=True)]).mean()),
    )
