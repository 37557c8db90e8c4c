"""The transformer on whole windows, of which every position is scored, as in language modeling. Exact.

Nothing is left out and nothing is shared, so there is no index: linear maps and norms run on all tokens in a row,
attention on windows. Tensors are (seed, token, channel), as in `packed`, whose parts these are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int32, Int64
from torch import Tensor

from icecore.models.base import Parameters
from icecore.models.fused import Nodes
from icecore.models.packed import gelu, linear, norm, select, without_bias
from icecore.models.transformer import Transformer

SHORTEST = 65  # tokens of a window; up to 64, `packed` has a kernel for attention, and shares beginnings


@dataclass(frozen=True)
class Windows:
    """The tokens of one step, or of many with one more axis in front."""

    tokens: Int64[Tensor, "*step batch seq"]
    weight: Float[Tensor, "*step token"]  # of each token's answer

    def step(self, index: int) -> "Windows":
        return Windows(self.tokens[index], self.weight[index])

    def read(self) -> list[Tensor]:
        """What a step reads on the device."""
        return [self.tokens, self.weight]

    def fixed(self) -> "Windows":
        """A copy, which stays where it is."""
        return Windows(self.tokens.clone(), self.weight.clone())

    def size(self) -> tuple[object, ...]:
        """Steps of equal size can be computed by the same graph."""
        return tuple(self.tokens.shape)


def joined(model: Transformer) -> str:
    """Of `packed.units`."""
    return "kv" if model.attention == "prefix-sum" else "qkv"


def dense_hidden(
    model: Transformer, embeddings: Parameters, body: Parameters, windows: Windows, dtype: torch.dtype
) -> Float[Tensor, "seed token width"]:
    """What the unembedding reads, in `dtype`. `body` is of `packed.body_for_computing`, with its maps `joined`."""
    batch, length = windows.tokens.shape
    tokens: Int32[Tensor, " token"] = windows.tokens.flatten().int()
    embedded = select(embeddings["token"], tokens).unflatten(1, (batch, length))
    stream = (embedded + embeddings["position"][:, None, :length]).flatten(1, 2)
    x, stream = norm(stream, None, body, "block0.attention_norm", dtype)
    stream, added, shift = stream.to(dtype), None, None  # both are added to the stream by the norm that follows
    for layer in range(model.layers):
        block = f"block{layer}"
        if layer > 0:
            x, stream = norm(stream, added, body, f"{block}.attention_norm", dtype, shift)
        read = linear(x, body, f"{block}.{joined(model)}").split(model.width, dim=-1)
        added, shift = without_bias(attend_windows(model, read, length), body, f"{block}.out")
        x, stream = norm(stream, added, body, f"{block}.mlp_norm", dtype, shift)
        added, shift = without_bias(gelu(linear(x, body, f"{block}.mlp_in")), body, f"{block}.mlp_out")
    return norm(stream, added, body, "final_norm", dtype, shift)[0]


def attend_windows(model: Transformer, read: Sequence[Nodes], length: int) -> Nodes:
    """Each token's mix of the values of its window up to itself; `read` are queries, keys and values, as `joined`."""

    def by_window(x: Nodes) -> Float[Tensor, "window head seq channel"]:
        return x.reshape(-1, length, model.heads, model.width // model.heads).transpose(1, 2)

    if model.attention == "prefix-sum":
        mixed = by_window(read[-1]).cumsum(dim=2)
    else:
        query, key, value = map(by_window, read)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    return mixed.transpose(1, 2).reshape(read[0].shape)
