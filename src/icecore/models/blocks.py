"""Pre-norm bodies with RMSNorm and SwiGLU. Llama, linear attention and DeltaNet differ in what mixes the tokens."""

import abc
import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.errors import require, require_choices
from icecore.models.base import Hook, Model, ModelDims, Parameters, ParameterSpec, require_size
from icecore.models.initializers import Constant

NORM_EPSILON = 1e-6  # SOURCE: LlamaConfig
BASE_STD = 0.02  # SOURCE: transformers' and flash-linear-attention's initializer_range
BASE_WIDTH = 1024  # `matched` has the gain of this width


@dataclass(frozen=True)
class GatedBlocks(Model):
    """Blocks of a token mixer and a SwiGLU MLP, each after an RMSNorm; no biases, untied embeddings.

    Initializations; `gain` multiplies all matrices of the body, embeddings have std .02 in all:
      library   std .02
      matched   .02 x sqrt(1024 / width): the gain of width 1024 at every width
      gaussian  1 / sqrt(inputs), and what the library sets by hand is drawn too
    """

    width: int = 1024
    layers: int = 2
    heads: int = 4
    init: Literal["library", "matched", "gaussian"] = "library"
    gain: float = 1.0
    learned_positions: bool = False

    roles: ClassVar[tuple[str, ...]] = ("token", "position", "unembed", "attention", "mlp", "norm")

    def __post_init__(self) -> None:
        for size in ("width", "layers", "heads"):
            require_size(size, getattr(self, size))
        require(
            self.width % self.heads == 0,
            f"width must be a multiple of heads, got width {self.width} with {self.heads} heads",
        )
        require(math.isfinite(self.gain) and self.gain > 0, f"gain must be positive, got {self.gain}")
        require_choices(self)

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def mlp_width(self) -> int:
        """Return 8/3 of the width, a multiple of 8: three matrices then have the size of GPT-2's two."""
        return 8 * math.ceil(self.width / 3)

    @abc.abstractmethod
    def mixer_specs(self, block: str) -> dict[str, ParameterSpec]:
        """Return the parameters of a block's mixer."""

    @abc.abstractmethod
    def mix(
        self, parameters: Parameters, block: str, x: Float[Tensor, "batch seq width"], hook: Hook
    ) -> Float[Tensor, "batch seq width"]:
        """Return what a block's mixer adds to the residual stream."""

    def matrix(self, outputs: int, inputs: int, role: str) -> ParameterSpec:
        """Return the spec of a matrix of the body."""
        std = BASE_STD * (math.sqrt(BASE_WIDTH / self.width) if self.init == "matched" else 1)
        std = 1 / math.sqrt(inputs) if self.init == "gaussian" else std
        return ParameterSpec((outputs, inputs), role, self.gain * std)

    def specs(self, dims: ModelDims) -> dict[str, ParameterSpec]:
        width, inner = self.width, self.mlp_width
        specs = {
            "token": ParameterSpec((dims.vocab_size, width), "token", BASE_STD),
            "unembed": ParameterSpec((dims.vocab_size, width), "unembed", BASE_STD),
        }
        if self.learned_positions:
            specs["position"] = ParameterSpec((dims.n_positions, width), "position", BASE_STD)
        norm = ParameterSpec((width,), "norm", Constant(1.0))
        for layer in range(self.layers):
            block = f"block{layer}"
            specs[f"{block}.mixer_norm.weight"] = norm
            specs |= self.mixer_specs(block)
            specs[f"{block}.mlp_norm.weight"] = norm
            specs[f"{block}.mlp_gate.weight"] = self.matrix(inner, width, "mlp/mlp_gate")
            specs[f"{block}.mlp_in.weight"] = self.matrix(inner, width, "mlp/mlp_in")
            specs[f"{block}.mlp_out.weight"] = self.matrix(width, inner, "mlp/mlp_out")
        return {**specs, "final_norm.weight": norm}

    def hidden(
        self, parameters: Parameters, tokens: Int64[Tensor, "batch seq"], hook: Hook | None = None
    ) -> Float[Tensor, "batch seq width"]:
        """Return the residual stream after the final norm. A `hook` sees every activation, and may replace it."""
        hook = hook or unchanged
        stream = hook("embedding", embed(parameters, tokens))
        for layer in range(self.layers):
            block = f"block{layer}"
            mixed = self.mix(parameters, block, normed(stream, parameters, f"{block}.mixer_norm"), hook)
            stream = hook(f"{block}.middle", stream + hook(f"{block}.mixer_out", mixed))
            x = normed(stream, parameters, f"{block}.mlp_norm")
            gate = F.silu(linear(x, parameters, f"{block}.mlp_gate"))
            active = hook(f"{block}.mlp_active", gate * linear(x, parameters, f"{block}.mlp_in"))
            added = hook(f"{block}.mlp_out", linear(active, parameters, f"{block}.mlp_out"))
            stream = hook(f"{block}.stream", stream + added)
        return hook("final", normed(stream, parameters, "final_norm"))

    def unembed(self, parameters: Parameters, hidden: Float[Tensor, "*places width"]) -> Float[Tensor, "*places vocab"]:
        return hidden @ parameters["unembed"].T

    def split(self, x: Float[Tensor, "batch seq channels"]) -> Float[Tensor, "batch head seq channel"]:
        return x.unflatten(2, (-1, self.head_width)).transpose(1, 2)

    @property
    def mixer_activations(self) -> tuple[str, ...]:
        """Return the names that `mix` passes to the hook, without the block."""
        return ()

    @property
    def activations(self) -> tuple[str, ...]:
        """Return the names, here by shape.

        (batch, seq, width): embedding; blockN.mixer_out and blockN.mlp_out, which are added to the residual stream;
        blockN.middle and blockN.stream, the residual stream after mixer and MLP; final, after the final norm.
        (batch, seq, mlp_width): blockN.mlp_active. (batch, head, query, key): Llama's blockN.attention.
        """
        parts = (*self.mixer_activations, "mixer_out", "middle", "mlp_active", "mlp_out", "stream")
        return ("embedding", *(f"block{layer}.{part}" for layer in range(self.layers) for part in parts), "final")

    @property
    def streams(self) -> tuple[str, ...]:
        return ("embedding", *(f"block{layer}.stream" for layer in range(self.layers)), "final")


def unchanged(_name: str, value: Tensor) -> Tensor:
    return value


def embed(parameters: Parameters, tokens: Int64[Tensor, "batch seq"]) -> Float[Tensor, "batch seq width"]:
    """Return the token embeddings, plus the position embeddings if the body has them."""
    embedded = parameters["token"][tokens]
    return embedded + parameters["position"][: tokens.shape[1]] if "position" in parameters else embedded


def linear(x: Tensor, parameters: Parameters, name: str) -> Tensor:
    return F.linear(x, parameters[f"{name}.weight"])


def normed(x: Tensor, parameters: Parameters, name: str, epsilon: float = NORM_EPSILON) -> Tensor:
    return rms_norm(x, epsilon) * parameters[f"{name}.weight"]


def rms_norm(x: Tensor, epsilon: float = NORM_EPSILON) -> Tensor:
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + epsilon)


def rotated(x: Float[Tensor, "batch head seq channel"]) -> Float[Tensor, "batch head seq channel"]:
    """Rotate pairs of channels by angles in proportion to the position. SOURCE: RoFormer, arXiv 2104.09864."""
    length, half = x.shape[2], x.shape[3] // 2
    rate = 10_000.0 ** (-torch.arange(half, device=x.device, dtype=x.dtype) / half)
    angle = torch.arange(length, device=x.device, dtype=x.dtype)[:, None] * rate
    cosine, sine = angle.cos(), angle.sin()
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def causal_mask(length: int, device: torch.device) -> Tensor:
    """Return the lower triangle: True where a query, the row, may read a key, the column."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()
