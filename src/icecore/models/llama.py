"""Llama: softmax attention with rotary positions and shared keys, RMSNorm, SwiGLU."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from icecore.errors import require
from icecore.models.base import Hook, ModelDims, Parameters, ParameterSpec, require_size, same_forward_pass
from icecore.models.blocks import GatedBlocks, causal_mask, linear, rotated

if TYPE_CHECKING:
    from icecore.models.engines import Engine


@dataclass(frozen=True)
class Llama(GatedBlocks):
    """Equal to transformers' LlamaForCausalLM, unless it has learned positions too.

    `heads_per_key` heads share one head of keys and values.
    """

    heads_per_key: int = 1

    name: ClassVar[str] = "llama"
    kept_per_token: ClassVar[int] = 40

    def __post_init__(self) -> None:
        super().__post_init__()
        require_size("heads_per_key", self.heads_per_key)
        require(
            self.heads % self.heads_per_key == 0,
            f"heads must be a multiple of heads_per_key, got {self.heads} heads with {self.heads_per_key} per key",
        )
        require(
            self.head_width % 2 == 0,
            f"rotary positions need heads of an even width, got width {self.width} with {self.heads} heads",
        )

    def mixer_specs(self, block: str) -> dict[str, ParameterSpec]:
        shared = self.width // self.heads_per_key
        return {
            f"{block}.q.weight": self.matrix(self.width, self.width, "attention/q"),
            f"{block}.k.weight": self.matrix(shared, self.width, "attention/k"),
            f"{block}.v.weight": self.matrix(shared, self.width, "attention/v"),
            f"{block}.out.weight": self.matrix(self.width, self.width, "attention/out"),
        }

    def mix(
        self, parameters: Parameters, block: str, x: Float[Tensor, "batch seq width"], hook: Hook
    ) -> Float[Tensor, "batch seq width"]:
        query, key, value = (self.split(linear(x, parameters, f"{block}.{part}")) for part in ("q", "k", "v"))
        key = rotated(key).repeat_interleave(self.heads_per_key, dim=1)
        value = value.repeat_interleave(self.heads_per_key, dim=1)
        scores = rotated(query) @ key.transpose(2, 3) / math.sqrt(self.head_width)
        scores = scores.masked_fill(~causal_mask(x.shape[1], x.device), -torch.inf)
        mixed = hook(f"{block}.attention", scores.softmax(dim=-1)) @ value
        return linear(mixed.transpose(1, 2).flatten(2), parameters, f"{block}.out")

    def state_size(self, tokens: int, /) -> int:
        return 2 * tokens * self.layers * self.width // self.heads_per_key

    @property
    def mixer_activations(self) -> tuple[str, ...]:
        return ("attention",)

    def to_huggingface(self, dims: ModelDims, parameters: Parameters, /) -> Any:
        from icecore.models.huggingface_bodies import to_llama

        is_llama = same_forward_pass(self, Llama)
        return to_llama(self, dims, parameters) if is_llama else super().to_huggingface(dims, parameters)

    @property
    def engine(self) -> "type[Engine]":
        from icecore.models.engines.mixers import LlamaEngine

        return LlamaEngine if same_forward_pass(self, Llama) else super().engine
