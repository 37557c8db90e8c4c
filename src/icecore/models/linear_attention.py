"""Linear attention: (Q K^T x decay) V, without softmax, with a choice of decay."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from icecore.errors import require
from icecore.models.base import Hook, Parameters, ParameterSpec, same_forward_pass
from icecore.models.blocks import GatedBlocks, causal_mask, linear, rms_norm, rotated
from icecore.models.initializers import Normal
from icecore.models.mamba import time_step_bias

if TYPE_CHECKING:
    from icecore.models.engines import Engine

RANK = 16  # rank of GLA's map from tokens to gates
TEMPERATURE = 16  # GLA divides its log gates by this
CHUNK = 8  # tokens whose channel-wise decays are computed pair by pair

Heads = Float[Tensor, "batch head seq channel"]


def slow_decays(shape: tuple[int, ...], _generator: torch.Generator) -> Float[Tensor, " head"]:
    """Return logits of the decays 1 - 2^-5, 1 - 2^-6, ... by head. SOURCE: RetNet, arXiv 2307.08621."""
    return (2.0 ** (5 + torch.arange(shape[0])) - 1).log()


def log_uniform_rates(shape: tuple[int, ...], generator: torch.Generator) -> Float[Tensor, " head"]:
    """Return logs of uniform rates from 1 to 16. SOURCE: Mamba-2, in flash-linear-attention."""
    return (1 + 15 * torch.rand(shape, generator=generator)).log()


@dataclass(frozen=True)
class LinearAttention(GatedBlocks):
    """Heads with a matrix as state: state = decay x state + key value^T; output = query . state.

    Decays:
      none     1
      fixed    a constant of each head (RetNet); it trains only if --trainable names it, `decay`
      channel  of each channel of the key, gated by the token (GLA)
      head     of each head, gated by the token, with a time step that scales the value too (Mamba-2)
    Each head's output has an RMSNorm without weight and a SiLU gate.
    DIFFERS: no short convolution; queries and keys are rotated only with `rotary` (RetNet rotates them).
    """

    decay: Literal["none", "fixed", "channel", "head"] = "none"
    rotary: bool = False

    name: ClassVar[str] = "linear-attention"
    kept_per_token: ClassVar[int] = 45

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            not self.rotary or self.head_width % 2 == 0,
            f"rotary positions need heads of an even width, got width {self.width} with {self.heads} heads",
        )

    @property
    def fixed_roles(self) -> tuple[str, ...]:
        return ("attention/decay",) if self.decay == "fixed" else ()

    def mixer_specs(self, block: str) -> dict[str, ParameterSpec]:
        width = self.width
        parts = ("q", "k", "v", "gate", "out")
        specs = {f"{block}.{part}.weight": self.matrix(width, width, f"attention/{part}") for part in parts}
        return specs | {f"{block}.{name}": spec for name, spec in self.decay_specs().items()}

    def decay_specs(self) -> dict[str, ParameterSpec]:
        role, drawn = "attention/decay", Normal(1.0) if self.init == "gaussian" else None
        if self.decay == "fixed":
            return {"decay": ParameterSpec((self.heads,), role, drawn or slow_decays)}
        if self.decay == "channel":
            return {
                "decay_in.weight": self.matrix(RANK, self.width, role),
                "decay_out.weight": self.matrix(self.width, RANK, role),
                "decay_out.bias": ParameterSpec((self.width,), role, drawn or 0.0),
            }
        if self.decay == "head":
            return {
                "step.weight": self.matrix(self.heads, self.width, role),
                "step.bias": ParameterSpec((self.heads,), role, drawn or time_step_bias),
                "log_rate": ParameterSpec((self.heads,), role, drawn or log_uniform_rates),
            }
        return {}

    def mix(
        self, parameters: Parameters, block: str, x: Float[Tensor, "batch seq width"], hook: Hook
    ) -> Float[Tensor, "batch seq width"]:
        del hook  # the output alone is named, by the block
        query, key, value = (self.split(linear(x, parameters, f"{block}.{part}")) for part in ("q", "k", "v"))
        if self.rotary:
            query, key = rotated(query), rotated(key)
        query = query / math.sqrt(self.head_width)
        if self.decay == "channel":
            gate = linear(linear(x, parameters, f"{block}.decay_in"), parameters, f"{block}.decay_out")
            log_decay = F.logsigmoid(gate + parameters[f"{block}.decay_out.bias"]) / TEMPERATURE
            mixed = decayed_by_channel(query, key, value, self.split(log_decay))
        else:
            step, log_decay = self.decay_by_head(parameters, block, x)
            mixed = decayed_by_head(query, key, value if step is None else step[..., None] * value, log_decay)
        mixed = rms_norm(mixed).transpose(1, 2).flatten(2)
        return linear(mixed * F.silu(linear(x, parameters, f"{block}.gate")), parameters, f"{block}.out")

    def decay_by_head(
        self, parameters: Parameters, block: str, x: Float[Tensor, "batch seq width"]
    ) -> tuple[Tensor | None, Float[Tensor, "batch head seq"]]:
        """Return the time step, if there is one, and the log decay of each token."""
        if self.decay == "head":
            step = F.softplus(linear(x, parameters, f"{block}.step") + parameters[f"{block}.step.bias"]).transpose(1, 2)
            return step, -step * parameters[f"{block}.log_rate"].exp()[:, None]
        log_decay = x.new_zeros(len(x), self.heads, x.shape[1])
        return None, log_decay + F.logsigmoid(parameters[f"{block}.decay"])[
            :, None
        ] if self.decay == "fixed" else log_decay

    def state_size(self, _tokens: int, /) -> int:
        return self.layers * self.width * self.head_width

    @property
    def engine(self) -> "type[Engine]":
        from icecore.models.engines.mixers import LinearAttentionEngine

        return LinearAttentionEngine if same_forward_pass(self, LinearAttention) else super().engine


def decayed_by_head(query: Heads, key: Heads, value: Heads, log_decay: Float[Tensor, "batch head seq"]) -> Heads:
    """Return the outputs of the recurrence as one masked product: all decays are exponentials of negative numbers."""
    total = log_decay.cumsum(dim=2)
    between = total[..., :, None] - total[..., None, :]
    decay = between.masked_fill(~causal_mask(query.shape[2], query.device), -torch.inf).exp()
    return (query @ key.transpose(2, 3) * decay) @ value


def decayed_by_channel(query: Heads, key: Heads, value: Heads, log_decay: Heads) -> Heads:
    """Return the outputs of the recurrence, chunk by chunk: pairs within a chunk, and the state before it."""
    state = query.new_zeros(*query.shape[:2], query.shape[3], value.shape[3])
    outputs = []
    for q, k, v, log in zip(*(each.split(CHUNK, dim=2) for each in (query, key, value, log_decay)), strict=True):
        total = log.cumsum(dim=2)
        between = total[..., :, None, :] - total[..., None, :, :]
        visible = causal_mask(q.shape[2], q.device)[..., None]
        decay = between.masked_fill(~visible, -torch.inf).exp()
        scores = (q[..., :, None, :] * decay * k[..., None, :, :]).sum(dim=-1)
        outputs.append(scores @ v + (q * total.exp()) @ state)
        end = total[:, :, -1:]
        state = end.exp().transpose(2, 3) * state + (k * (end - total).exp()).transpose(2, 3) @ v
    return torch.cat(outputs, dim=2)
