"""Engines of the bodies of `models/blocks.py`: how each mixes the tokens of sequences that share prefixes."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int32
from torch import Tensor

from icecore.models.blocks import rms_norm
from icecore.models.deltanet import DeltaNet, of_length_one
from icecore.models.engines.blocks import BlocksEngine, GatedProduct
from icecore.models.engines.devices import has_kernels
from icecore.models.engines.fused import Asking, Nodes, Outputs
from icecore.models.engines.layers import select
from icecore.models.engines.prefix_index import PrefixIndex, Reads
from icecore.models.engines.prefixes import attend
from icecore.models.linear_attention import CHUNK, TEMPERATURE, LinearAttention, decayed_by_channel
from icecore.models.llama import Llama

# One batch axis for seeds and sequences.
LaidOut = Float[Tensor, "batch head place channel"]
Asked = Float[Tensor, "batch head asked channel"]


class Layout:
    """Nodes (or rows) laid out by sequence, and back."""

    def __init__(self, index: PrefixIndex, rows: bool, scored: bool) -> None:
        self.reads: Reads = index.reads(rows, scored)
        self.scored = scored
        self.outputs = len(index.scored_node) if scored else index.nodes
        self.sequences = self.reads.real_rows if scored else len(self.reads.index)
        self.length = self.reads.index.shape[1]
        self.column = torch.arange(self.length, device=index.lengths.device)

    @property
    def query_columns(self) -> Int32[Tensor, "sequence query"]:
        """Return the columns of the queries; one row for all sequences if every token is a query."""
        return self.reads.query_columns.view(self.sequences, -1) if self.scored else self.column.int()[None]

    @property
    def visible(self) -> Bool[Tensor, "sequence 1 query key"]:
        return (self.column <= self.query_columns[..., None])[:, None]

    def keys(self, x: Nodes, heads: int) -> LaidOut:
        laid_out = select(x, self.reads.index[: self.sequences].flatten())
        return laid_out.view(-1, self.length, heads, x.shape[2] // heads).transpose(1, 2)

    def queries(self, x: Nodes, heads: int) -> LaidOut:
        """Lay out what belongs to outputs: x itself if these are scored positions."""
        if not self.scored:
            return self.keys(x, heads)
        return x.reshape(len(x) * self.sequences, -1, heads, x.shape[2] // heads).transpose(1, 2)

    def by_seed(self, x: Tensor, seeds: int) -> Float[Tensor, "seed sequence *rest"]:
        return x.unflatten(0, (seeds, -1))

    def back(self, mixed: LaidOut, seeds: int) -> Nodes:
        """Return the outputs by node, or by scored position."""
        flat = mixed.transpose(1, 2).reshape(seeds, -1, mixed.shape[1] * mixed.shape[3])
        if self.scored:
            return flat
        own = self.reads.own.flatten()
        exists = (own >= 0) & (self.column < self.reads.lengths[:, None]).flatten()
        out = flat.new_zeros((seeds, self.outputs + 1, flat.shape[2]))
        return out.index_copy(1, own.where(exists, self.outputs).long(), flat)[:, : self.outputs]


def columns_of(index: PrefixIndex, rows: bool) -> Int32[Tensor, " node"]:
    """Return the position of each row, or of each node."""
    return index.row_columns if rows else index.row_columns[index.row_of_node]


def rotated_at(x: Nodes, columns: Int32[Tensor, " node"], head_width: int) -> Nodes:
    """Rotate each head as `blocks.rotated` does, at these positions."""
    half = head_width // 2
    wide = torch.promote_types(x.dtype, torch.float32)
    rate = 10_000.0 ** (-torch.arange(half, device=x.device, dtype=wide) / half)
    angle = columns.to(wide)[:, None] * rate
    cosine, sine = (each[:, None].to(x.dtype) for each in (angle.cos(), angle.sin()))
    first, second = x.unflatten(-1, (-1, 2, half)).unbind(dim=-2)
    return torch.stack([first * cosine - second * sine, second * cosine + first * sine], dim=-2).flatten(-3)


class LlamaEngine(BlocksEngine):
    """Rotated queries and keys depend on the node alone, so attention is the transformer's."""

    model: Llama

    def mix(self, block: str, x: Nodes, asking: Asking, index: PrefixIndex, rows: bool, scored: bool) -> Outputs:
        model, columns = self.model, columns_of(index, rows)
        if scored:
            key, value = self.weights.linear(x, block, "k", "v")
            (query,) = self.weights.linear(asking, block, "q")
        else:
            query, key, value = self.weights.linear(x, block, "q", "k", "v")
        query = rotated_at(query, index.scored_column if scored else columns, model.head_width)
        key = rotated_at(key, columns, model.head_width)
        if model.heads_per_key > 1:
            key, value = (
                each.unflatten(-1, (-1, model.head_width)).repeat_interleave(model.heads_per_key, dim=2).flatten(2)
                for each in (key, value)
            )
        if has_kernels(x):
            return attend(model.heads, "softmax", query, torch.cat([key, value], dim=-1), index, rows, scored)
        layout = Layout(index, rows, scored)
        query, key, value = (
            layout.queries(query, model.heads),
            layout.keys(key, model.heads),
            layout.keys(value, model.heads),
        )
        mask = layout.visible.repeat(len(x), 1, 1, 1) if scored else None
        mixed = F.scaled_dot_product_attention(query, key, value, mask, is_causal=not scored)
        return layout.back(mixed, len(x))


class LinearAttentionEngine(BlocksEngine):
    model: LinearAttention

    def mix(self, block: str, x: Nodes, asking: Asking, index: PrefixIndex, rows: bool, scored: bool) -> Outputs:
        model, columns, layout = self.model, columns_of(index, rows), Layout(index, rows, scored)
        if scored:
            key, value = self.weights.linear(x, block, "k", "v")
            query, gate = self.weights.linear(asking, block, "q", "gate")
        else:
            query, key, value, gate = self.weights.linear(x, block, "q", "k", "v", "gate")
            gate = select(gate, index.row_of_node) if rows else gate
        if model.rotary:
            query = rotated_at(query, index.scored_column if scored else columns, model.head_width)
            key = rotated_at(key, columns, model.head_width)
        query = layout.queries(query, model.heads) / math.sqrt(model.head_width)
        key, value = layout.keys(key, model.heads), layout.keys(value, model.heads)
        if model.decay == "channel":
            mixed = self.decay_by_channel(block, x, query, key, value, layout)
        else:
            mixed = self.decay_by_head(block, x, query, key, value, layout)
        return GatedProduct.apply(gate, layout.back(rms_norm(mixed), len(x)))

    def decay_by_channel(
        self, block: str, x: Nodes, query: Asked, key: LaidOut, value: LaidOut, layout: Layout
    ) -> Asked:
        """Return the outputs of GLA; few queries read their keys directly, many go chunk by chunk."""
        (low,) = self.weights.linear(x, block, "decay_in")
        (wanted,) = self.weights.linear(low, block, "decay_out")
        bias = self.parameters[f"{block}.decay_out.bias"]
        log_decay = F.logsigmoid(wanted.to(bias.dtype) + bias[:, None]) / TEMPERATURE
        log_decay = layout.keys(log_decay, self.model.heads)
        if not layout.scored:
            wide = log_decay.dtype
            mixed = decayed_by_channel(query.to(wide), key.to(wide), value.to(wide), log_decay)
            return mixed.to(query.dtype)
        total = log_decay.cumsum(dim=2)
        at = layout.query_columns.repeat(self.seeds, 1).long()
        outputs = []
        for q, column in zip(query.split(CHUNK, dim=2), at.split(CHUNK, dim=1), strict=True):
            place = column[:, None, :, None].expand(-1, total.shape[1], -1, total.shape[3])
            between = total.gather(2, place)[..., :, None, :] - total[..., None, :, :]
            visible = (layout.column <= column[..., None])[:, None, ..., None]
            decay = between.masked_fill(~visible, -torch.inf).exp()
            scores = (q[..., :, None, :] * decay * key[..., None, :, :]).sum(dim=-1)
            outputs.append(scores.to(value.dtype) @ value)
        return torch.cat(outputs, dim=2)

    def decay_by_head(self, block: str, x: Nodes, query: Asked, key: LaidOut, value: LaidOut, layout: Layout) -> Asked:
        """Return the outputs of one masked product."""
        seeds, parameters = len(x), self.parameters
        scores = layout.by_seed(query @ key.transpose(2, 3), seeds)
        if self.model.decay == "none":
            decay = layout.visible.to(scores.dtype)
        else:
            if self.model.decay == "fixed":
                by_token = F.logsigmoid(parameters[f"{block}.decay"])[:, None, :, None]
                total = (by_token * (layout.column + 1)).expand(-1, layout.sequences, -1, -1)
            else:
                (step,) = self.weights.linear(x, block, "step")
                bias, rate = parameters[f"{block}.step.bias"], parameters[f"{block}.log_rate"].exp()
                step = layout.keys(F.softplus(step.to(bias.dtype) + bias[:, None]), self.model.heads)
                value = step.to(value.dtype) * value
                by_token = -layout.by_seed(step[..., 0], seeds) * rate[:, None, :, None]
                total = by_token.cumsum(dim=-1)
            own = layout.query_columns.long()[:, None].expand(*total.shape[:3], -1)
            between = total.gather(3, own)[..., None] - total[..., None, :]
            decay = between.masked_fill(~layout.visible, -torch.inf).exp().to(scores.dtype)
        return (scores * decay).flatten(0, 1) @ value


class DeltaNetEngine(BlocksEngine):
    model: DeltaNet

    def mix(self, block: str, x: Nodes, asking: Asking, index: PrefixIndex, rows: bool, scored: bool) -> Outputs:
        model, layout = self.model, Layout(index, rows, scored)
        if scored:
            key, value, rate = self.weights.linear(x, block, "k", "v", "rate")
            (query,) = self.weights.linear(asking, block, "q")
        else:
            query, key, value, rate = self.weights.linear(x, block, "q", "k", "v", "rate")
        query, key, value = (F.silu(each) for each in (query, key, value))
        query = of_length_one(layout.queries(query, model.heads)) / math.sqrt(model.head_width)
        key = of_length_one(layout.keys(key, model.heads))
        value, rate = layout.keys(value, model.heads), layout.keys(rate.sigmoid(), model.heads)
        rate = 2 * rate if model.negative_eigenvalues else rate
        later = (layout.column[:, None] > layout.column).to(key.dtype)
        overlap = rate * (key @ key.transpose(2, 3)) * later
        written = inverse_of_one_plus(overlap) @ (rate * value)
        scores = layout.by_seed(query @ key.transpose(2, 3), len(x)) * layout.visible
        return layout.back(rms_norm(scores.flatten(0, 1) @ written), len(x))


def inverse_of_one_plus(strict: Float[Tensor, "*batch place place"]) -> Float[Tensor, "*batch place place"]:
    """Return (1 + L)^-1 of strictly lower triangular matrices L."""
    return InverseOfOnePlus.apply(strict)


class InverseOfOnePlus(torch.autograd.Function):
    """By blocks of doubling size: the inverse of (A 0; C B) is (A' 0; -B' C A' B').

    Log(length) batched products that a graph can capture, where a triangular solve goes row by row.
    """

    @staticmethod
    def forward(ctx, strict):
        length = strict.shape[-1]
        padded = 1 << (length - 1).bit_length()
        lower = F.pad(strict, (0, padded - length, 0, padded - length)).reshape(-1, padded, padded)
        inverse = torch.eye(padded, dtype=strict.dtype, device=strict.device).expand_as(lower).contiguous()
        size = 1
        while size < padded:
            count = padded // (2 * size)
            cut = (len(lower), count, 2 * size, count, 2 * size)
            below, own = (each.view(cut).diagonal(dim1=1, dim2=3).movedim(-1, 1) for each in (lower, inverse))
            first, second = own[..., :size, :size], own[..., size:, size:]
            own[..., size:, :size] = -(second @ below[..., size:, :size] @ first)
            size *= 2
        inverse = inverse[:, :length, :length].reshape(strict.shape)
        ctx.save_for_backward(inverse)
        return inverse

    @staticmethod
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        (inverse,) = ctx.saved_tensors
        transposed = inverse.transpose(-2, -1)
        return -(transposed @ gradient @ transposed).tril(-1)
