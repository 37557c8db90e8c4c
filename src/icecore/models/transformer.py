"""GPT-2: pre-norm, gelu_new, learned positions, final norm, no dropout, untied, no output bias."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.errors import require, require_choices
from icecore.models.base import (
    Decoder,
    Hook,
    Model,
    ModelDims,
    Parameters,
    ParameterSpec,
    require_size,
    same_forward_pass,
)
from icecore.models.initializers import Constant, MixingMatrix, Normal, Sinusoidal
from icecore.store import ADDED_LATER

if TYPE_CHECKING:
    from icecore.models.engines import Engine

NORM_EPSILON = 1e-5
BASE_STD = 0.02  # SOURCE: section 3 and GPT-2
BASE_WIDTH = 1024  # `matched` has the gain of this width


@dataclass(frozen=True)
class Transformer(Model):
    """A decoder-only transformer.

    Initializations; `gain` multiplies all matrices of the body:
      released  std .02, output projections of attention and MLP .02 / sqrt(2 layers), as in GPT-2
      paper     std .02, all of the MLP .02 / sqrt(2 layers)
      matched   released x sqrt(1024 / width): the gain of width 1024 at every width
      matched-all  matched, for the unembedding too: its gain matters where it is frozen
    Positions are initialized like tokens (normal), or as sines and cosines (sinusoidal). The authors' scripts have a
    sinusoidal mode too, for frozen positions; the paper does not mention it.

    With attention "random" each head mixes positions by a fixed random matrix of the seed (`MixingMatrix`). It trains
    only if --trainable names it, `mixing`.
    """

    width: int = 1024
    layers: int = 2
    heads: int = 4  # SOURCE: the released scripts; the paper does not say
    attention: Literal["softmax", "prefix-sum", "random"] = "softmax"  # prefix-sum: Table 9's linearized transformer
    init: Literal["released", "paper", "matched", "matched-all"] = "released"
    gain: float = 1.0
    position_init: Literal["normal", "sinusoidal"] = field(default="normal", metadata={ADDED_LATER: True})

    name: ClassVar[str] = "transformer"
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
    def unread_roles(self) -> tuple[str, ...]:
        return () if self.attention == "softmax" else ("attention/q", "attention/k")

    @property
    def fixed_roles(self) -> tuple[str, ...]:
        return ("attention/mixing",)

    def specs(self, dims: ModelDims) -> dict[str, ParameterSpec]:
        width = self.width
        to_base = math.sqrt(BASE_WIDTH / width)
        std = BASE_STD * self.gain * (to_base if self.init in ("matched", "matched-all") else 1)
        scaled = std / math.sqrt(2 * self.layers)
        out_std, mlp_in_std = (std, scaled) if self.init == "paper" else (scaled, std)
        position = Sinusoidal() if self.position_init == "sinusoidal" else Normal(BASE_STD)
        specs = {
            "token": ParameterSpec((dims.vocab_size, width), "token", BASE_STD),
            "position": ParameterSpec((dims.n_positions, width), "position", position),
            "unembed": ParameterSpec(
                (dims.vocab_size, width), "unembed", BASE_STD * (to_base if self.init == "matched-all" else 1)
            ),
        }

        def add_norm(name: str) -> None:
            specs[f"{name}.weight"] = ParameterSpec((width,), "norm", Constant(1.0))
            specs[f"{name}.bias"] = ParameterSpec((width,), "norm")

        def add_linear(name: str, outputs: int, inputs: int, role: str, scale: float) -> None:
            specs[f"{name}.weight"] = ParameterSpec((outputs, inputs), role, scale)
            specs[f"{name}.bias"] = ParameterSpec((outputs,), role)

        for layer in range(self.layers):
            block = f"block{layer}"
            add_norm(f"{block}.attention_norm")
            for part in ("q", "k", "v"):
                add_linear(f"{block}.{part}", width, width, f"attention/{part}", std)
            add_linear(f"{block}.out", width, width, "attention/out", out_std)
            if self.attention == "random":
                shape = (self.heads, dims.n_positions, dims.n_positions)
                mixing = MixingMatrix(width // self.heads)
                specs[f"{block}.mixing"] = ParameterSpec(shape, "attention/mixing", mixing)
            add_norm(f"{block}.mlp_norm")
            add_linear(f"{block}.mlp_in", 4 * width, width, "mlp/mlp_in", mlp_in_std)
            add_linear(f"{block}.mlp_out", width, 4 * width, "mlp/mlp_out", scaled)
        add_norm("final_norm")
        return specs

    def hidden(
        self, parameters: Parameters, tokens: Int64[Tensor, "batch seq"], hook: Hook | None = None
    ) -> Float[Tensor, "batch seq width"]:
        """Return the residual stream after the final norm. A `hook` sees every activation, and may replace it."""
        hook = hook or unchanged
        stream = hook("embedding", parameters["token"][tokens] + parameters["position"][: tokens.shape[1]])
        for layer in range(self.layers):
            block = f"block{layer}"
            attended = self.attend(parameters, block, norm(stream, parameters, f"{block}.attention_norm"), hook)
            stream = hook(f"{block}.middle", stream + hook(f"{block}.attention_out", attended))
            inner = linear(norm(stream, parameters, f"{block}.mlp_norm"), parameters, f"{block}.mlp_in")
            active = hook(f"{block}.mlp_active", self.activate(inner))
            added = hook(f"{block}.mlp_out", linear(active, parameters, f"{block}.mlp_out"))
            stream = hook(f"{block}.stream", stream + added)
        return hook("final", norm(stream, parameters, "final_norm"))

    def activate(self, inner: Float[Tensor, "*places inner"]) -> Float[Tensor, "*places inner"]:
        return F.gelu(inner, approximate="tanh")

    def attend(
        self, parameters: Parameters, block: str, x: Float[Tensor, "batch seq width"], hook: Hook
    ) -> Float[Tensor, "batch seq width"]:
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)

        def heads_of(part: str) -> Float[Tensor, "batch head seq channel"]:
            return linear(x, parameters, f"{block}.{part}").reshape(split).transpose(1, 2)

        value = heads_of("v")
        if self.attention == "prefix-sum":
            mixed = value.cumsum(dim=2)  # a lower triangle of ones as the attention matrix
        elif self.attention == "random":
            mixed = parameters[f"{block}.mixing"][:, :length, :length].tril() @ value
        else:
            scores = heads_of("q") @ heads_of("k").transpose(2, 3) / math.sqrt(split[-1])
            future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            mixed = hook(f"{block}.attention", scores.masked_fill(future, -torch.inf).softmax(dim=-1)) @ value
        return linear(mixed.transpose(1, 2).reshape(batch, length, width), parameters, f"{block}.out")

    def unembed(self, parameters: Parameters, hidden: Float[Tensor, "*places width"]) -> Float[Tensor, "*places vocab"]:
        return hidden @ parameters["unembed"].T

    def state_size(self, tokens: int, /) -> int:
        """Return the size of keys and values, of values, or of their running sums."""
        kept = {"softmax": 2 * tokens, "random": tokens, "prefix-sum": 1}[self.attention]
        return kept * self.layers * self.width

    @property
    def activations(self) -> tuple[str, ...]:
        """Return the names, here by shape.

        (batch, seq, width): embedding; blockN.attention_out and blockN.mlp_out, which are added to the residual
        stream; blockN.middle and blockN.stream, the residual stream after attention and after the MLP; final, after
        the final norm. (batch, head, query, key): blockN.attention. (batch, seq, 4 width): blockN.mlp_active.
        """
        attention = ("attention",) if self.attention == "softmax" else ()
        parts = (*attention, "attention_out", "middle", "mlp_active", "mlp_out", "stream")
        return ("embedding", *(f"block{layer}.{part}" for layer in range(self.layers) for part in parts), "final")

    @property
    def streams(self) -> tuple[str, ...]:
        return ("embedding", *(f"block{layer}.stream" for layer in range(self.layers)), "final")

    @property
    def engine(self) -> "type[Engine]":
        from icecore.models.engines.transformer import TransformerEngine

        return TransformerEngine if same_forward_pass(self, Transformer) else super().engine

    def decoder(self, parameters: Parameters) -> tuple[Decoder, Any]:
        from icecore.models.cached import cached_decoder

        is_cached = self.attention != "random" and same_forward_pass(self, Transformer)
        return cached_decoder(self, parameters) if is_cached else super().decoder(parameters)

    def to_huggingface(self, dims: ModelDims, parameters: Parameters, /) -> Any:
        from icecore.models.huggingface import to_huggingface

        is_gpt2 = same_forward_pass(self, Transformer)
        return to_huggingface(self, dims, parameters) if is_gpt2 else super().to_huggingface(dims, parameters)


def unchanged(_name: str, value: Tensor) -> Tensor:
    return value


def norm(x: Tensor, parameters: Parameters, name: str) -> Tensor:
    weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
    return F.layer_norm(x, weight.shape, weight, bias, NORM_EPSILON)


def linear(x: Tensor, parameters: Parameters, name: str) -> Tensor:
    return F.linear(x, parameters[f"{name}.weight"], parameters[f"{name}.bias"])
