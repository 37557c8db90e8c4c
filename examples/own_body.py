"""A frozen body of your own: compare a GRU with a transformer. An interrupted comparison resumes.

python examples/own_body.py     # about a minute on two cores; the second time it only prints
"""

import math
import statistics
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import icecore as ice
from icecore.models import MODELS, Model, ModelDims, Parameters, ParameterSpec, Uniform


@dataclass(frozen=True)
class GRU(Model):
    """One-layer GRU with PyTorch's initialization. A model defines parameters, their roles and a forward pass."""

    width: int = 128
    name: ClassVar[str] = "my-gru"
    roles: ClassVar[tuple[str, ...]] = ("token", "unembed", "recurrent")
    vectorizes: ClassVar[bool] = False  # torch.func.vmap does not support GRUs: seeds run one by one

    def specs(self, dims: ModelDims) -> dict[str, ParameterSpec]:
        width, uniform = self.width, Uniform(1 / math.sqrt(self.width))
        return {
            "token": ParameterSpec((dims.vocab_size, width), "token", 1.0),
            "from_input": ParameterSpec((3 * width, width), "recurrent", uniform),
            "from_state": ParameterSpec((3 * width, width), "recurrent", uniform),
            "unembed": ParameterSpec((dims.vocab_size, width), "unembed", uniform),
        }

    def hidden(self, parameters: Parameters, tokens: Int64[Tensor, "batch seq"]) -> Float[Tensor, "batch seq width"]:
        inputs = parameters["token"][tokens]
        start = inputs.new_zeros(1, len(tokens), self.width)
        weights = [parameters["from_input"], parameters["from_state"]]
        return torch.gru(inputs, start, weights, False, 1, 0.0, torch.is_grad_enabled(), False, True)[0]

    def unembed(self, parameters: Parameters, hidden: Float[Tensor, "*places width"]) -> Float[Tensor, "*places vocab"]:
        return hidden @ parameters["unembed"].T


MODELS[GRU.name] = GRU  # so that its runs can be loaded


if __name__ == "__main__":
    # On the command line: icecore compare needle --model transformer --model examples/own_body.py:GRU ...
    task = ice.tasks.Needle(max_pairs=4, values=16, vocabulary=25, test_size=300)
    bodies = {"transformer": [ice.Transformer(128, init="matched")], "my-gru": [GRU(128)]}
    training = {"steps": 650, "batch": 128, "lr": 2e-2, "warmup_steps": 50}
    for point in ice.compare(task, bodies, ["embeddings"], seeds=2, out="runs/own-body", **training):
        print(f"{point.line}: {statistics.median(point.values):.1f} %, baseline {point.baseline:.1f}")
