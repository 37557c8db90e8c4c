"""The textbook LSTM between an embedding and an output layer with a bias."""

import math
import warnings
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.models.base import Model, Parameters, Sizes, Spec, require_size


@dataclass(frozen=True)
class LSTM(Model):
    """A recurrent network; it has no positions, and its body is one role, `recurrent`.

    Initialized as PyTorch does it, which is what the released scripts use: embeddings N(0, 1), all else
    uniform within 1 / sqrt(width).
    """

    width: int = 1024
    layers: int = 2

    name: ClassVar[str] = "lstm"
    roles: ClassVar[tuple[str, ...]] = ("token", "unembed", "recurrent")
    vectorizes: ClassVar[bool] = False  # the fused kernel knows one network

    def __post_init__(self) -> None:
        require_size("width", self.width)
        require_size("layers", self.layers)

    def specs(self, sizes: Sizes) -> dict[str, Spec]:
        width, bound = self.width, 1 / math.sqrt(self.width)
        specs = {
            "token": Spec((sizes.vocab_size, width), "token", 1.0),
            "unembed": Spec((sizes.vocab_size, width), "unembed", bound, "uniform"),
            "unembed_bias": Spec((sizes.vocab_size,), "unembed", bound, "uniform"),
        }
        for layer in range(self.layers):
            for part in ("input", "hidden"):
                specs[f"layer{layer}.{part}.weight"] = Spec((4 * width, width), "recurrent", bound, "uniform")
            for part in ("input", "hidden"):
                specs[f"layer{layer}.{part}.bias"] = Spec((4 * width,), "recurrent", bound, "uniform")
        return specs

    def hidden(self, parameters: Parameters, tokens: Int64[Tensor, "batch seq"]) -> Float[Tensor, "batch seq width"]:
        embedded = parameters["token"][tokens]
        start = embedded.new_zeros(self.layers, len(tokens), self.width)
        weights = [
            parameters[f"layer{layer}.{part}"]
            for layer in range(self.layers)
            for part in ("input.weight", "hidden.weight", "input.bias", "hidden.bias")
        ]
        with warnings.catch_warnings():
            # cuDNN copies the weights into one block at every call, and says so; for now it may.
            warnings.filterwarnings("ignore", message="RNN module weights are not part of single")
            output, _, _ = torch.lstm(
                embedded,
                (start, start),
                weights,
                has_biases=True,
                num_layers=self.layers,
                dropout=0.0,
                train=torch.is_grad_enabled(),
                bidirectional=False,
                batch_first=True,
            )
        return output

    def unembed(self, parameters: Parameters, hidden: Float[Tensor, "*places width"]) -> Float[Tensor, "*places vocab"]:
        return hidden @ parameters["unembed"].T + parameters["unembed_bias"]
