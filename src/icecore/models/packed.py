"""The transformer's logits at scored positions, computing only what they depend on. Exact; the twin of `logits`.

Sequences are on average half as long as their padding, and little of the last layer is read. So every linear
map and norm runs on the tokens that exist, as one flat list, and tokens are laid out by sequence for attention
alone; in the last layer only keys and values run on all tokens, and everything else on scored positions.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from icecore.models.base import Parameters
from icecore.models.transformer import Transformer, linear, norm


@dataclass(frozen=True)
class Packing:
    """Where the tokens of a batch are in the flat list, and which of them are scored."""

    tokens: Int64[Tensor, " tokens"]
    columns: Int64[Tensor, " tokens"]
    place: Int64[Tensor, " tokens"]  # of each token in the flattened (batch, seq)
    shape: tuple[int, int]
    scored: Int64[Tensor, " scored"]  # which tokens of the flat list are scored
    slot: Int64[Tensor, " scored"]  # of each scored position in the flattened (batch, most scored in a row)
    slots: int  # the most scored positions in a row
    hidden_keys: Bool[Tensor, "batch slot seq"]  # what a scored position must not attend to: later tokens


def pack(tokens: Int64[Tensor, "batch seq"], scored: Bool[Tensor, "batch seq"]) -> Packing:
    """The packing of a batch; it serves all seeds."""
    batch, length = tokens.shape
    column = torch.arange(length, device=tokens.device)
    last = (scored * (column + 1)).amax(dim=1, keepdim=True)
    place = (column < last).flatten().nonzero()[:, 0]
    rank = scored.cumsum(dim=1) - 1  # of a scored position among those of its row
    slots = int(rank.max()) + 1
    row_of_scored, column_of_scored = scored.nonzero(as_tuple=True)
    slot = row_of_scored * slots + rank[scored]
    query_column = torch.zeros(batch * slots, dtype=torch.int64, device=tokens.device)
    query_column[slot] = column_of_scored
    return Packing(
        tokens=tokens.flatten()[place],
        columns=place % length,
        place=place,
        shape=(batch, length),
        scored=scored.flatten()[place].nonzero()[:, 0],
        slot=slot,
        slots=slots,
        hidden_keys=column > query_column.view(batch, slots, 1),
    )


def packed_logits(model: Transformer, parameters: Parameters, packing: Packing) -> Float[Tensor, "scored vocab"]:
    """Logits at the scored positions, row by row."""
    batch, length = packing.shape
    stream = parameters["token"][packing.tokens] + parameters["position"][packing.columns]
    future = torch.ones(length, length, dtype=torch.bool, device=stream.device).triu(1)
    for layer in range(model.layers):
        block = f"block{layer}"
        is_last = layer == model.layers - 1
        x = norm(stream, parameters, f"{block}.attention_norm")
        key, value = (by_row(linear(x, parameters, f"{block}.{part}"), packing.place, batch, length) for part in "kv")
        if is_last:
            stream, x = stream[packing.scored], x[packing.scored]
        index, columns = (packing.slot, packing.slots) if is_last else (packing.place, length)
        query = by_row(linear(x, parameters, f"{block}.q"), index, batch, columns)
        mixed = attend(model, query, key, value, packing.hidden_keys if is_last else future)
        stream = stream + linear(mixed.reshape(batch * columns, -1)[index], parameters, f"{block}.out")
        inner = linear(norm(stream, parameters, f"{block}.mlp_norm"), parameters, f"{block}.mlp_in")
        stream = stream + linear(F.gelu(inner, approximate="tanh"), parameters, f"{block}.mlp_out")
    return model.unembed(parameters, norm(stream, parameters, "final_norm"))


def by_row(
    flat: Float[Tensor, "tokens width"], place: Int64[Tensor, " tokens"], batch: int, columns: int
) -> Float[Tensor, "batch columns width"]:
    """Tokens of the flat list laid out by sequence; zeros where there are none, which nothing attends to."""
    padded = flat.new_zeros(batch * columns, flat.shape[-1])
    return padded.index_put((place,), flat).view(batch, columns, -1)


def attend(
    model: Transformer,
    query: Float[Tensor, "batch query width"],
    key: Float[Tensor, "batch seq width"],
    value: Float[Tensor, "batch seq width"],
    hidden_keys: Bool[Tensor, "*batch query seq"],
) -> Float[Tensor, "batch query width"]:
    """Attention of some queries to the keys that are not hidden from them."""

    def split(x: Tensor) -> Float[Tensor, "batch head place channel"]:
        return x.view(*x.shape[:2], model.heads, -1).transpose(1, 2)

    visible = ~hidden_keys if hidden_keys.ndim == 2 else ~hidden_keys[:, None]
    if model.attention == "prefix-sum":
        weights = visible.to(value.dtype)
    else:
        scores = split(query) @ split(key).transpose(2, 3) / math.sqrt(model.width // model.heads)
        weights = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
    mixed = weights @ split(value)
    return mixed.transpose(1, 2).reshape(query.shape)
