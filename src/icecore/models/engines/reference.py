"""The engine of any model as written: compute all positions, and pick the scored ones."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.models.base import Model, Positions
from icecore.models.engines.base import Batches, Engine, ModelBatch, Targets
from icecore.models.engines.shape_buckets import ShapeBuckets


@dataclass(frozen=True)
class Sequences:
    """The tokens of one step, and its scored positions."""

    tokens: Int64[Tensor, "batch seq"]
    at: Positions


class SequenceBatches:
    """Steps, each prepared when it is taken."""

    def __init__(self, batches: Batches) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def step(self, index: int) -> ModelBatch:
        batches = self.batches
        scored = batches.scored[index]
        flat = scored.flatten().nonzero()[:, 0]
        weight = torch.ones_like(flat, dtype=torch.float32)
        targets = Targets.at((flat + index * scored.numel())[None], weight[None], batches).step(0)
        positions = Positions(*scored.nonzero(as_tuple=True))
        return ModelBatch(Sequences(batches.tokens[index], positions), targets)


class ReferenceEngine(Engine[Model]):
    """The reference of all other engines, and the engine of models without their own."""

    @classmethod
    def prepare(cls, batches: Batches, buckets: ShapeBuckets | None = None) -> SequenceBatches:
        del buckets  # nothing is captured, so shapes need not repeat
        return SequenceBatches(batches)

    def logits(self, inputs: Sequences) -> Float[Tensor, "seed query vocab"]:
        model = self.model
        if not model.vectorizes or self.seeds == 1:
            each = (self.parameters_of(index) for index in range(self.seeds))
            return torch.stack([model.logits(one, inputs.tokens, inputs.at) for one in each])
        return torch.func.vmap(lambda one: model.logits(one, inputs.tokens, inputs.at))(dict(self.parameters))
