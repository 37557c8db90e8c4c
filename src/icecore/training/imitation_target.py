"""Random target of circuit imitation, its weights scaled up so that outputs are not uniform."""

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
MOST_VALUES = 1 << 25  # per activation: 128 MiB, for any number of inputs


@dataclass(frozen=True)
class Scaling:
    """Factors for a target's weights, besides the unembedding's 100 / sqrt(width).

    The factor for biases that the text mentions is omitted: biases start at 0, so it has no effect.
    """

    base: Literal["released", "paper"]  # the initialization that is scaled
    q: float
    k: float
    v: float
    mlp_in: float
    mlp_out: float


# Unscaled, with three layers, the MLP's matrices have .02 / sqrt(6), except the scripts' input weights, with .02.
SCALINGS: dict[TargetInit, Scaling] = {
    # SOURCE: the released script: queries, keys and values to .2, the MLP's output projection to .4 / sqrt(6).
    "released": Scaling("released", q=10, k=10, v=10, mlp_in=1, mlp_out=20),
    # SOURCE: section 6.2: queries and keys to .2, all of the MLP to .4 / sqrt(6); values stay at .02.
    "text": Scaling("paper", q=10, k=10, v=1, mlp_in=20, mlp_out=20),
    # SOURCE: appendix D.2.2: queries, keys and values "scaled up by 10x: changed to 0.4", which is 20 times .02; we
    # use the number, not the factor. Otherwise as in the text: the unembedding's 2 / sqrt(n) is .02 x 100 / sqrt(n).
    "appendix": Scaling("paper", q=20, k=20, v=20, mlp_in=20, mlp_out=20),
}


@dataclass(frozen=True)
class Target:
    """Maps token ids to log-probabilities at the last position, in float32 for any precision of the run.

    DIFFERS: our own random numbers, so another target from the same distribution.
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
    """Return the task; circuit imitation without a target gets the one of its `target_width` and `target_init`."""
    if not isinstance(task, Imitation) or task.target is not None:
        return task
    return replace(task, target=Target(task.target_width, task.vocabulary, task.length, task.target_init))


@dataclass(frozen=True)
class TargetNumbers:
    """Statistics of a target on random inputs, in nats: output entropy, KL divergence between two inputs' outputs.

    `uniform` and `mean_output` are the KL divergences of its outputs from these two constant answers.
    """

    init: TargetInit
    width: int
    entropy: float
    pairwise_kl: float
    uniform: float
    mean_output: float


def target_numbers(task: Imitation, items: int) -> TargetNumbers:
    """Measure a target on random inputs; a pair has one input from each half.

    SOURCE: appendix D.2.2 reports entropy and pairwise KL.
    """
    require(items >= 2, f"pairs need at least 2 items, got {items}")
    drawn = task.outputs(with_target(task).draw(items // 2 * 2, make_generator(0, "target numbers")))
    first, second = drawn.chunk(2)
    entropy = float(entropies(drawn).mean())
    mean = (mean_output(second), mean_output(first))  # mean of the other half: a mean is closer to its own samples
    return TargetNumbers(
        task.target_init,
        task.target_width,
        entropy,
        float(divergences(first, second).mean()),
        math.log(task.vocabulary) - entropy,
        float(torch.cat([divergences(each, of) for each, of in zip((first, second), mean, strict=True)]).mean()),
    )
