"""DeltaNet: linear attention that replaces what its state holds for a key, instead of adding to it."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from icecore.models.base import Hook, Parameters, ParameterSpec, same_forward_pass
from icecore.models.blocks import GatedBlocks, causal_mask, linear, rms_norm
from icecore.models.linear_attention import Heads

NORM_EPSILON = 1e-6  # epsilon of the norms of keys and queries

if TYPE_CHECKING:
    from icecore.models.engines import Engine


@dataclass(frozen=True)
class DeltaNet(GatedBlocks):
    """Heads with a matrix as state: state = state + rate x key (value - key . state)^T; output = query . state.

    Queries and keys have length 1, rates are between 0 and 1, or 2 with `negative_eigenvalues`, which parity needs
    (arXiv 2411.12537). Each head's output has an RMSNorm without weight. SOURCE: arXiv 2406.06484. DIFFERS: no short
    convolution.
    """

    negative_eigenvalues: bool = False

    name: ClassVar[str] = "deltanet"
    kept_per_token: ClassVar[int] = 60

    def mixer_specs(self, block: str) -> dict[str, ParameterSpec]:
        width, parts = self.width, ("q", "k", "v", "out")
        specs = {f"{block}.{part}.weight": self.matrix(width, width, f"attention/{part}") for part in parts}
        return specs | {f"{block}.rate.weight": self.matrix(self.heads, width, "attention/rate")}

    def mix(
        self, parameters: Parameters, block: str, x: Float[Tensor, "batch seq width"], hook: Hook
    ) -> Float[Tensor, "batch seq width"]:
        del hook  # the output alone is named, by the block
        query, key, value = (self.split(F.silu(linear(x, parameters, f"{block}.{part}"))) for part in ("q", "k", "v"))
        rate = linear(x, parameters, f"{block}.rate").sigmoid().transpose(1, 2)
        rate = 2 * rate if self.negative_eigenvalues else rate
        mixed = replaced(of_length_one(query) / math.sqrt(self.head_width), of_length_one(key), value, rate)
        return linear(rms_norm(mixed).transpose(1, 2).flatten(2), parameters, f"{block}.out")

    def state_size(self, _tokens: int, /) -> int:
        return self.layers * self.width * self.head_width

    @property
    def engine(self) -> "type[Engine]":
        from icecore.models.engines.mixers import DeltaNetEngine

        return DeltaNetEngine if same_forward_pass(self, DeltaNet) else super().engine


def of_length_one(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().sum(dim=-1, keepdim=True) + NORM_EPSILON)


def replaced(query: Heads, key: Heads, value: Heads, rate: Float[Tensor, "batch head seq"]) -> Heads:
    """Return the outputs of the recurrence at once.

    Token t writes rate_t (value_t - sum over s < t of (key_t . key_s) written_s): a triangular system.
    """
    visible, scale = causal_mask(query.shape[2], query.device), rate[..., None]
    overlap = (scale * (key @ key.transpose(2, 3))).masked_fill(~visible.tril(-1), 0.0)
    system = overlap + torch.eye(query.shape[2], device=query.device, dtype=query.dtype)
    written = torch.linalg.solve_triangular(system, scale * value, upper=False, unitriangular=True)
    return (query @ key.transpose(2, 3)).masked_fill(~visible, 0.0) @ written
