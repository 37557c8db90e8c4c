"""Decoding with a key-value cache, as pure functions. The reference is `logits` on the whole text."""

import math
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.errors import require
from icecore.models.base import Decoder, Parameters
from icecore.models.transformer import Transformer, linear, norm


class Cache(NamedTuple):
    """Cache of attention, layer by layer.

    With softmax: keys and values, (batch, head, seq, channel) each. With prefix sums: the sum of all values,
    (batch, head, 1, channel), at any length.
    """

    length: int
    layers: tuple[tuple[Tensor, ...], ...]


def empty_cache(model: Transformer) -> Cache:
    return Cache(0, ((),) * model.layers)


def cached_decoder(model: Transformer, parameters: Parameters) -> tuple[Decoder, Cache]:
    return partial(cached_logits, model, parameters), empty_cache(model)


def cached_logits(
    model: Transformer, parameters: Parameters, tokens: Int64[Tensor, "batch new"], cache: Cache
) -> tuple[Float[Tensor, "batch new vocab"], Cache]:
    """Return the logits at the new tokens and the extended cache, in the parameters' dtype and on their device."""
    begin, end = cache.length, cache.length + tokens.shape[1]
    positions = len(parameters["position"])
    require(end <= positions, f"the text must have at most {positions} tokens, the model's positions, got {end}")
    stream = parameters["token"][tokens] + parameters["position"][begin:end]
    layers = []
    for layer, kept in enumerate(cache.layers):
        block = f"block{layer}"
        mixed, kept = attend(model, parameters, block, norm(stream, parameters, f"{block}.attention_norm"), kept)
        stream = stream + linear(mixed, parameters, f"{block}.out")
        inner = linear(norm(stream, parameters, f"{block}.mlp_norm"), parameters, f"{block}.mlp_in")
        stream = stream + linear(F.gelu(inner, approximate="tanh"), parameters, f"{block}.mlp_out")
        layers.append(kept)
    return model.unembed(parameters, norm(stream, parameters, "final_norm")), Cache(end, tuple(layers))


def attend(
    model: Transformer,
    parameters: Parameters,
    block: str,
    x: Float[Tensor, "batch new width"],
    kept: tuple[Tensor, ...],
) -> tuple[Float[Tensor, "batch new width"], tuple[Tensor, ...]]:
    """Return the new tokens' attention output, heads concatenated, and the layer's new cache."""

    def heads_of(part: str) -> Float[Tensor, "batch head new channel"]:
        return linear(x, parameters, f"{block}.{part}").unflatten(2, (model.heads, -1)).transpose(1, 2)

    value = heads_of("v")
    if model.attention == "prefix-sum":
        mixed = value.cumsum(dim=2)
        mixed = mixed + kept[0] if kept else mixed
        kept = (mixed[:, :, -1:],)
    else:
        query, fresh = heads_of("q"), (heads_of("k"), value)
        key, value = (torch.cat(pair, dim=2) for pair in zip(kept, fresh, strict=True)) if kept else fresh
        scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])
        future = torch.ones(scores.shape[2:], dtype=torch.bool, device=x.device).triu(1 + key.shape[2] - x.shape[1])
        mixed = scores.masked_fill(future, -torch.inf).softmax(dim=-1) @ value
        kept = (key, value)
    return mixed.transpose(1, 2).flatten(2), kept
