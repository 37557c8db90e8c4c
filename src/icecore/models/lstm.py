"""A standard LSTM between token embeddings and an unembedding with a bias."""

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.models.base import Hook, Model, ModelDims, Parameters, ParameterSpec, require_size, same_forward_pass
from icecore.models.initializers import Uniform

if TYPE_CHECKING:
    from icecore.models.engines import Engine

LAYER_PARAMETERS = ("input.weight", "hidden.weight", "input.bias", "hidden.bias")  # one layer's, in PyTorch's order


@dataclass(frozen=True)
class LSTM(Model):
    """A recurrent network without positions; its body has one role, `recurrent`.

    Initialized as in PyTorch, which the released scripts use: embeddings N(0, 1), all else uniform within
    1 / sqrt(width).
    """

    width: int = 1024
    layers: int = 2

    name: ClassVar[str] = "lstm"
    roles: ClassVar[tuple[str, ...]] = ("token", "unembed", "recurrent")
    vectorizes: ClassVar[bool] = False  # the fused kernel runs one network

    def __post_init__(self) -> None:
        require_size("width", self.width)
        require_size("layers", self.layers)

    def specs(self, dims: ModelDims) -> dict[str, ParameterSpec]:
        width, uniform = self.width, Uniform(1 / math.sqrt(self.width))
        specs = {
            "token": ParameterSpec((dims.vocab_size, width), "token", 1.0),
            "unembed": ParameterSpec((dims.vocab_size, width), "unembed", uniform),
            "unembed_bias": ParameterSpec((dims.vocab_size,), "unembed", uniform),
        }
        for layer in range(self.layers):
            for part in ("input", "hidden"):
                specs[f"layer{layer}.{part}.weight"] = ParameterSpec((4 * width, width), "recurrent", uniform)
            for part in ("input", "hidden"):
                specs[f"layer{layer}.{part}.bias"] = ParameterSpec((4 * width,), "recurrent", uniform)
        return specs

    def weights(self, parameters: Parameters) -> list[Tensor]:
        """Return the body's parameters in PyTorch's order."""
        return [parameters[f"layer{layer}.{part}"] for layer in range(self.layers) for part in LAYER_PARAMETERS]

    def hidden(
        self, parameters: Parameters, tokens: Int64[Tensor, "batch seq"], hook: Hook | None = None
    ) -> Float[Tensor, "batch seq width"]:
        embedded, weights = parameters["token"][tokens], self.weights(parameters)
        if hook is None:
            return run_layers(embedded, weights)
        output = hook("embedding", embedded)
        for layer in range(self.layers):
            own = weights[layer * len(LAYER_PARAMETERS) : (layer + 1) * len(LAYER_PARAMETERS)]
            output = hook(f"layer{layer}.output", run_layers(output, own))
        return output

    def state_size(self, _tokens: int, /) -> int:
        """Return the size of hidden states and cells."""
        return 2 * self.layers * self.width

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

        return RecurrentEngine if same_forward_pass(self, LSTM) else super().engine


def run_layers(inputs: Float[Tensor, "batch seq width"], weights: list[Tensor]) -> Float[Tensor, "batch seq width"]:
    """Run the layers with these weights, from zero states."""
    layers = len(weights) // len(LAYER_PARAMETERS)
    start = inputs.new_zeros(layers, len(inputs), inputs.shape[2])
    with warnings.catch_warnings():
        # cuDNN copies the weights into one block at every call, and warns. The engine avoids the copy.
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single")
        output, _, _ = torch.lstm(
            inputs,
            (start, start),
            weights,
            has_biases=True,
            num_layers=layers,
            dropout=0.0,
            train=torch.is_grad_enabled(),
            bidirectional=False,
            batch_first=True,
        )
    return output
