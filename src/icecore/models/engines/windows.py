"""The transformer on whole windows with every position scored, as in language modeling. Exact.

No token is skipped and no prefix shared, so there is no index: linear maps and norms run on all tokens, attention on
windows. Tensors are (seed, token, channel).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int32, Int64
from torch import Tensor

from icecore.models.base import Parameters
from icecore.models.engines.base import Batches, ModelBatch, Targets
from icecore.models.engines.fused import Nodes
from icecore.models.engines.layers import gelu, linear, norm, select, without_bias
from icecore.models.transformer import Transformer

SHORTEST = 65  # tokens per window; up to 64, `prefixes` has an attention kernel, and shares prefixes


@dataclass(frozen=True)
class Windows:
    """The tokens of one step, or of many with a leading step axis."""

    tokens: Int64[Tensor, "*step batch seq"]
    weight: Float[Tensor, "*step token"]  # weight of each token's target

    def step(self, index: int) -> "Windows":
        return Windows(self.tokens[index], self.weight[index])

    def read(self) -> list[Tensor]:
        """Return the tensors that a captured step reads."""
        return [self.tokens, self.weight]

    def fixed(self) -> "Windows":
        """Clone into static buffers for CUDA-graph capture."""
        return Windows(self.tokens.clone(), self.weight.clone())

    def size(self) -> tuple[object, ...]:
        """Return a key: steps with equal keys replay the same graph."""
        return tuple(self.tokens.shape)


class WindowBatches:
    """Steps of whole windows."""

    def __init__(self, batches: Batches) -> None:
        tokens = batches.tokens
        flat = torch.arange(tokens.numel(), device=tokens.device).view(len(tokens), -1)
        weight = torch.ones_like(flat, dtype=torch.float32)
        self.windows, self.targets = Windows(tokens, weight), Targets.at(flat, weight, batches)

    def __len__(self) -> int:
        return len(self.windows.tokens)

    def step(self, index: int) -> ModelBatch:
        return ModelBatch(self.windows.step(index), self.targets.step(index))


def joined_maps(model: Transformer) -> str:
    """Return the attention maps computed as one product; see `transformer.units`."""
    return "qkv" if model.attention == "softmax" else "kv"


def window_hidden(
    model: Transformer, embeddings: Parameters, body: Parameters, windows: Windows, dtype: torch.dtype
) -> Float[Tensor, "seed token width"]:
    """Return the unembedding's input, in `dtype`. `body` is from `transformer.body_for_computing`."""
    batch, length = windows.tokens.shape
    tokens: Int32[Tensor, " token"] = windows.tokens.flatten().int()
    embedded = select(embeddings["token"], tokens).unflatten(1, (batch, length))
    stream = (embedded + embeddings["position"][:, None, :length]).flatten(1, 2)
    x, stream = norm(stream, None, body, "block0.attention_norm", dtype)
    stream, added, shift = stream.to(dtype), None, None  # the next norm adds both to the residual stream
    for layer in range(model.layers):
        block = f"block{layer}"
        if layer > 0:
            x, stream = norm(stream, added, body, f"{block}.attention_norm", dtype, shift)
        read = linear(x, body, f"{block}.{joined_maps(model)}").split(model.width, dim=-1)
        mixing = embeddings.get(f"{block}.mixing")
        added, shift = without_bias(attend_windows(model, read, length, mixing), body, f"{block}.out")
        x, stream = norm(stream, added, body, f"{block}.mlp_norm", dtype, shift)
        added, shift = without_bias(gelu(linear(x, body, f"{block}.mlp_in")), body, f"{block}.mlp_out")
    return norm(stream, added, body, "final_norm", dtype, shift)[0]


def attend_windows(model: Transformer, read: Sequence[Nodes], length: int, mixing: Tensor | None) -> Nodes:
    """Return each token's causal attention output in its window; `read` are (queries,) keys and values.

    `mixing` are the matrices of random attention.
    """

    def by_window(x: Nodes) -> Float[Tensor, "window head seq channel"]:
        return x.reshape(-1, length, model.heads, model.width // model.heads).transpose(1, 2)

    if mixing is not None:
        value = by_window(read[-1])
        weights = mixing[..., :length, :length].tril().to(value.dtype)
        mixed = (weights[:, None] @ value.unflatten(0, (len(weights), -1))).flatten(0, 1)
    elif model.attention == "prefix-sum":
        mixed = by_window(read[-1]).cumsum(dim=2)
    else:
        query, key, value = map(by_window, read)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    return mixed.transpose(1, 2).reshape(read[0].shape)
