"""A standard GRU between token embeddings and an unembedding with a bias."""

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.errors import require_choices
from icecore.models.base import Hook, Model, ModelDims, Parameters, ParameterSpec, require_size, same_forward_pass
from icecore.models.initializers import Initializer, Normal, Uniform

if TYPE_CHECKING:
    from icecore.models.engines import Engine

PARTS = ("input.weight", "hidden.weight", "input.bias", "hidden.bias")  # one layer's, in PyTorch's order


@dataclass(frozen=True)
class GRU(Model):
    """A recurrent network; its body has one role, `recurrent`.

    Initializations; embeddings are N(0, 1) in all:
      library   PyTorch's: all else uniform within 1 / sqrt(width)
      matched   the same, whose gain does not depend on the width
      gaussian  all else normal, with standard deviation 1 / sqrt(width)
    """

    width: int = 1024
    layers: int = 2
    init: Literal["library", "matched", "gaussian"] = "library"
    learned_positions: bool = False

    name: ClassVar[str] = "gru"
    roles: ClassVar[tuple[str, ...]] = ("token", "position", "unembed", "recurrent")
    vectorizes: ClassVar[bool] = False  # the fused kernel runs one network

    def __post_init__(self) -> None:
        require_size("width", self.width)
        require_size("layers", self.layers)
        require_choices(self)

    def specs(self, dims: ModelDims) -> dict[str, ParameterSpec]:
        width, scale = self.width, 1 / math.sqrt(self.width)
        drawn: Initializer = Normal(scale) if self.init == "gaussian" else Uniform(scale)
        specs = {
            "token": ParameterSpec((dims.vocab_size, width), "token", 1.0),
            "unembed": ParameterSpec((dims.vocab_size, width), "unembed", drawn),
            "unembed_bias": ParameterSpec((dims.vocab_size,), "unembed", drawn),
        }
        if self.learned_positions:
            specs["position"] = ParameterSpec((dims.n_positions, width), "position", 1.0)
        for layer in range(self.layers):
            for part in PARTS:
                shape = (3 * width, width) if part.endswith("weight") else (3 * width,)
                specs[f"layer{layer}.{part}"] = ParameterSpec(shape, "recurrent", drawn)
        return specs

    def weights(self, parameters: Parameters) -> list[Tensor]:
        """Return the body's parameters in PyTorch's order."""
        return [parameters[f"layer{layer}.{part}"] for layer in range(self.layers) for part in PARTS]

    def hidden(
        self, parameters: Parameters, tokens: Int64[Tensor, "batch seq"], hook: Hook | None = None
    ) -> Float[Tensor, "batch seq width"]:
        output = parameters["token"][tokens]
        if self.learned_positions:
            output = output + parameters["position"][: tokens.shape[1]]
        output = output if hook is None else hook("embedding", output)
        for layer in range(self.layers):
            output = run_layer(output, self.weights(parameters)[layer * len(PARTS) : (layer + 1) * len(PARTS)])
            output = output if hook is None else hook(f"layer{layer}.output", output)
        return output

    def state_size(self, _tokens: int, /) -> int:
        return self.layers * self.width

    @property
    def activations(self) -> tuple[str, ...]:
        return ("embedding", *(f"layer{layer}.output" for layer in range(self.layers)))

    @property
    def streams(self) -> tuple[str, ...]:
        return self.activations

    def unembed(self, parameters: Parameters, hidden: Float[Tensor, "*places width"]) -> Float[Tensor, "*places vocab"]:
        return hidden @ parameters["unembed"].T + parameters["unembed_bias"]

    @property
    def engine(self) -> "type[Engine]":
        from icecore.models.engines.recurrent import RecurrentEngine

        return RecurrentEngine if same_forward_pass(self, GRU) else super().engine


def run_layer(inputs: Float[Tensor, "batch seq width"], weights: list[Tensor]) -> Float[Tensor, "batch seq width"]:
    """Run one layer with these weights, from a zero state."""
    start = inputs.new_zeros(1, len(inputs), inputs.shape[2])
    with warnings.catch_warnings():
        # cuDNN copies the weights into one block at every call, and warns.
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single")
        return torch.gru(inputs, start, weights, True, 1, 0.0, torch.is_grad_enabled(), False, True)[0]
