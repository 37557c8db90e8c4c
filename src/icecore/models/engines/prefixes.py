"""The transformer's logits at scored positions, each distinct prefix computed once. Exact.

Every linear map and norm runs on nodes (`prefix_index`), the first layer's queries, keys and values on rows. In the
last layer only keys and values run on all nodes, everything else on scored positions. Tensors are (seed, node,
channel): parameters have a seed axis, all seeds share the index.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from icecore.models.base import Parameters
from icecore.models.engines.base import Batches, ModelBatch, Targets
from icecore.models.engines.devices import has_kernels
from icecore.models.engines.fused import FusedAttention, Nodes, tf32_allowed
from icecore.models.engines.layers import gather, gelu, linear, norm, norm_and_pick, select, without_bias
from icecore.models.engines.prefix_index import PrefixIndex, Reads, index_prefixes
from icecore.models.engines.shape_buckets import ShapeBuckets
from icecore.models.transformer import Transformer

Mixing = Float[Tensor, "seed head position_of_query position_of_key"]
LONGEST_FUSED = 64  # most tokens per sequence in `kernels`
WIDEST_EXACT_HEAD = 64


class PrefixBatches:
    """Steps, indexed by distinct prefixes."""

    def __init__(self, batches: Batches, buckets: ShapeBuckets | None) -> None:
        rounded = None if buckets is None else buckets.of_nodes
        self.indices = index_prefixes(batches.tokens, batches.scored, batches.vocab_size, rounded)
        stacked = self.indices.stacked
        flat = stacked.flat_indices(batches.tokens.shape[2])
        before = torch.arange(len(batches), device=flat.device)[:, None] * batches.tokens[0].numel()
        self.targets = Targets.at(flat + before, stacked.weight, batches)

    def __len__(self) -> int:
        return len(self.indices)

    def step(self, index: int) -> ModelBatch:
        return ModelBatch(self.indices.step(index), self.targets.step(index))


def prefix_hidden(
    model: Transformer, embeddings: Parameters, body: Parameters, index: PrefixIndex, dtype: torch.dtype
) -> Float[Tensor, "seed query width"]:
    """Return the unembedding's input at the scored positions, in its type. `body` is from `body_for_computing`."""
    rows = select(embeddings["token"], index.row_tokens) + select(embeddings["position"], index.row_columns)
    x, rows = norm(rows, None, body, "block0.attention_norm", dtype)
    stream = gather(rows, index.row_of_node, index.nodes_by_row, dtype) if index.has_rows else rows.to(dtype)
    added = None  # the next norm adds it to the residual stream
    for layer in range(model.layers):
        block, is_first, is_last = f"block{layer}", layer == 0, layer == model.layers - 1
        if not is_first and not is_last:
            x, stream = norm(stream, added, body, f"{block}.attention_norm", dtype)
        asking = x
        if is_last and is_first:
            asking, stream = select(x, index.row_of_node[index.scored_node]), select(stream, index.scored_node)
        elif is_last:
            name = f"{block}.attention_norm"
            assert added is not None
            x, asking, stream = norm_and_pick(stream, added, body, name, index.scored_node)
        kv = linear(x, body, f"{block}.kv")
        q = linear(asking, body, f"{block}.q") if model.attention == "softmax" else asking
        mixing = embeddings.get(f"{block}.mixing")
        mixed = attend(model.heads, model.attention, q, kv, index, is_first and index.has_rows, is_last, mixing)
        added, shift = without_bias(mixed, body, f"{block}.out")
        x, stream = norm(stream, added, body, f"{block}.mlp_norm", dtype, shift)
        added = linear(gelu(linear(x, body, f"{block}.mlp_in")), body, f"{block}.mlp_out")
    return norm(stream, added, body, "final_norm", embeddings["unembed"].dtype)[0]


def attend(
    heads: int,
    attention: str,
    q: Nodes,
    kv: Float[Tensor, "seed key both"],
    index: PrefixIndex,
    rows: bool,
    scored: bool,
    mixing: Mixing | None = None,
) -> Float[Tensor, "seed output width"]:
    """Return the attention output of each node, or of each scored position; random attention has its `mixing`."""
    reads = index.reads(rows, scored)
    outputs = len(index.scored_node) if scored else index.nodes
    # The kernels have no fast exact float32 products; cuBLAS does.
    is_fast = q.dtype == torch.bfloat16 or tf32_allowed() or q.shape[2] // heads <= WIDEST_EXACT_HEAD
    if has_kernels(q) and reads.index.shape[1] <= LONGEST_FUSED and is_fast and mixing is None:
        return FusedAttention.apply(q, kv, index, reads, outputs, rows, heads, attention == "softmax")
    return attend_laid_out(heads, attention, q, kv, reads, outputs, mixing)


def attend_laid_out(
    heads: int,
    attention: str,
    q: Nodes,
    kv: Float[Tensor, "seed key both"],
    reads: Reads,
    outputs: int,
    mixing: Mixing | None = None,
) -> Float[Tensor, "seed {outputs} width"]:
    """Attend with queries, keys and values laid out by sequence: the reference, for any device and length."""
    seeds, _, width = q.shape
    sequences, length = reads.index.shape
    column = torch.arange(length, device=q.device)
    if reads.slots is None:
        visible = column <= column[:, None]
        query = select(q, reads.index.flatten()).view(seeds, sequences, length, width)
        places = (reads.own.flatten() >= 0) & (column < reads.lengths[:, None]).flatten()
        slot = reads.own.flatten().where(places, outputs)
    else:
        sequences = reads.real_rows
        visible = column <= reads.query_columns.view(sequences, 1, -1, 1)
        query = q.view(seeds, sequences, reads.slots, width)
        slot = None
    laid_out = select(kv, reads.index[:sequences].flatten()).view(seeds, sequences, length, 2 * width)
    key, value = laid_out.split(width, dim=-1)

    def split(x: Tensor) -> Float[Tensor, "seed sequence head place channel"]:
        return x.unflatten(-1, (heads, -1)).transpose(2, 3)

    if mixing is not None:
        weights = mixing_weights(mixing.to(value.dtype), reads, sequences, length)
    elif attention == "prefix-sum":
        weights = visible.to(value.dtype).expand(seeds, sequences, 1, -1, -1)
    else:
        scores = split(query) @ split(key).transpose(-2, -1) / math.sqrt(width // heads)
        weights = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
    mixed = (weights @ split(value)).transpose(2, 3).reshape(seeds, -1, width)
    if slot is None:
        return mixed
    out = mixed.new_zeros((seeds, outputs + 1, width))
    return out.index_copy(1, slot.long(), mixed)[:, :outputs]


def mixing_weights(
    mixing: Mixing, reads: Reads, sequences: int, length: int
) -> Float[Tensor, "seed sequence head query key"]:
    """Return the rows of fixed mixing matrices at the queries' positions."""
    rows = mixing[..., :length].tril()
    if reads.slots is None:
        return rows[:, None, :, :length].expand(-1, sequences, -1, -1, -1)
    asked = rows.index_select(2, reads.query_columns)
    return asked.unflatten(2, (sequences, -1)).transpose(1, 2)
