"""Attention that reads queries, keys and values through an index, and its gradients.

Sequences have at most 64 tokens here, so one program holds all scores of a sequence, and only the inputs are saved for
the backward pass. Tensors are (seed, row, channel).
"""

from collections.abc import Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from icecore.models.engines.prefix_index import Reads

RowTensor = Float[Tensor, "seed row width"]
LONGEST = 64  # tokens, and scored positions, per sequence
LARGEST_CHUNK = 128  # channels at a time: small tiles let more programs run in parallel
WARPS = {16: 4, 32: 4, 64: 4}  # per program, by tile size
NARROW_WARPS = {16: 2, 32: 2, 64: 4}  # with up to 32 channels per head


@triton.jit
def load_tile(base, at, here, channel, CHANNELS: tl.constexpr, row_stride: tl.constexpr):
    """Load rows `at` of a matrix, (rows, channels) of one head; 0 where there is none."""
    place = base + at.to(tl.int64)[:, None] * row_stride + channel[None, :]
    return tl.load(place, mask=here[:, None] & (channel < CHANNELS)[None, :], other=0.0)


@triton.jit
def store_tile(base, at, here, channel, value, CHANNELS: tl.constexpr, row_stride: tl.constexpr):
    place = base + at.to(tl.int64)[:, None] * row_stride + channel[None, :]
    tl.store(place, value.to(base.dtype.element_ty), mask=here[:, None] & (channel < CHANNELS)[None, :])


@triton.jit
def key_places(key_index, lengths, rows, longest, N: tl.constexpr, SPAN: tl.constexpr):
    """Return the keys of a tile of N / SPAN sequences: their sequence, column, row of kv, and whether they exist."""
    n = tl.arange(0, N)
    row = tl.program_id(0) * (N // SPAN) + n // SPAN
    column = n % SPAN
    here = column < tl.load(lengths + row, mask=row < rows, other=0)
    at = tl.load(key_index + row * longest + column, mask=here, other=0)
    return row, column, at, here


@triton.jit
def query_places(
    key_index, own, query_column, lengths, rows, longest, slots, real_rows,
    M: tl.constexpr, N: tl.constexpr, SPAN: tl.constexpr, QUERY_SPAN: tl.constexpr, SELF: tl.constexpr,
):  # fmt: skip
    """Return the queries of a tile: their sequence, column, row of q, row of out (-1: none), and whether they exist."""
    m = tl.arange(0, M)
    if SELF:
        row, column, at, here = key_places(key_index, lengths, rows, longest, M, SPAN)
        out = tl.load(own + row * longest + column, mask=here, other=-1)
        return row, column, at, out, here
    row = tl.program_id(0) * (N // SPAN) + m // QUERY_SPAN
    here = (m // QUERY_SPAN < N // SPAN) & (m % QUERY_SPAN < slots) & (row < real_rows)
    at = row * slots + m % QUERY_SPAN
    column = tl.load(query_column + at, mask=here, other=0)
    return row, column, at, tl.where(here, at, -1), here


@triton.jit
def products(
    a, b, a_at, b_at, a_here, b_here, a_stride: tl.constexpr, b_stride: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, CHANNELS: tl.constexpr, CHUNK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return all dot products of rows of a with rows of b, one chunk of channels at a time."""
    total = tl.zeros((M, N), tl.float32)
    for first in tl.static_range(0, CHANNELS, CHUNK):
        channel = first + tl.arange(0, CHUNK)
        left = load_tile(a, a_at, a_here, channel, CHANNELS, a_stride)
        right = load_tile(b, b_at, b_here, channel, CHANNELS, b_stride)
        total += tl.dot(left, tl.trans(right), input_precision=PRECISION)
    return total


@triton.jit
def mix_and_store(
    weights, values, at, here, out, out_at, out_here, stride: tl.constexpr, out_stride: tl.constexpr,
    CHANNELS: tl.constexpr, CHUNK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Store weights @ values, one chunk of channels at a time."""
    for first in tl.static_range(0, CHANNELS, CHUNK):
        channel = first + tl.arange(0, CHUNK)
        value = load_tile(values, at, here, channel, CHANNELS, stride)
        mixed = tl.dot(weights.to(value.dtype), value, input_precision=PRECISION)
        store_tile(out, out_at, out_here, channel, mixed, CHANNELS, out_stride)


@triton.jit
def attention_weights(scores, query_row, query_column, key_row, key_column, key_here, SOFTMAX: tl.constexpr):
    visible = (key_row[None, :] == query_row[:, None]) & (key_column[None, :] <= query_column[:, None])
    visible = visible & key_here[None, :]
    if SOFTMAX:
        scores = tl.where(visible, scores, -1e30)  # finite: a query that does not exist may see no key
        weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])
        return weights / tl.sum(weights, axis=1)[:, None]
    return visible.to(tl.float32)


@triton.jit
def belongs(lengths, N: tl.constexpr):
    """Tell whether this program's sequence has tile size N: each size has its own launch."""
    length = tl.load(lengths + tl.program_id(0))
    return (length <= N) & (length > (N // 2 if N > 16 else 0))


@triton.jit
def forward_tile(
    q, kv, out, key_index, own, query_column, lengths, rows, longest, slots, real_rows, scale,
    WIDTH: tl.constexpr, CHANNELS: tl.constexpr, CHUNK: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    SPAN: tl.constexpr, QUERY_SPAN: tl.constexpr, SELF: tl.constexpr, SOFTMAX: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(1) * CHANNELS
    key_row, key_column, key_at, key_here = key_places(key_index, lengths, rows, longest, N, SPAN)
    row, column, at, out_at, here = query_places(
        key_index, own, query_column, lengths, rows, longest, slots, real_rows, M, N, SPAN, QUERY_SPAN, SELF
    )
    scores = tl.zeros((M, N), tl.float32)
    if SOFTMAX:
        scores = scale * products(
            q + first, kv + first, at, key_at, here, key_here, WIDTH, 2 * WIDTH, M, N, CHANNELS, CHUNK, PRECISION
        )
    weights = attention_weights(scores, row, column, key_row, key_column, key_here, SOFTMAX)
    mix_and_store(
        weights, kv + WIDTH + first, key_at, key_here, out + first, out_at, out_at >= 0,
        2 * WIDTH, WIDTH, CHANNELS, CHUNK, PRECISION,
    )  # fmt: skip


@triton.jit
def forward_kernel(
    q, kv, out, key_index, own, query_column, lengths,
    q_rows, kv_rows, out_rows, rows, longest, slots, real_rows, scale,
    WIDTH: tl.constexpr, CHANNELS: tl.constexpr, CHUNK: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    SPAN: tl.constexpr, QUERY_SPAN: tl.constexpr, SELF: tl.constexpr, SOFTMAX: tl.constexpr, PRECISION: tl.constexpr,
    BY_LENGTH: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(2).to(tl.int64)
    q += seed * q_rows * WIDTH
    kv += seed * kv_rows * 2 * WIDTH
    out += seed * out_rows * WIDTH
    if not BY_LENGTH or belongs(lengths, N):
        forward_tile(
            q, kv, out, key_index, own, query_column, lengths, rows, longest, slots, real_rows, scale,
            WIDTH, CHANNELS, CHUNK, M, N, SPAN, QUERY_SPAN, SELF, SOFTMAX, PRECISION,
        )  # fmt: skip


@triton.jit
def backward_tile(
    q, kv, d_out, d_q, d_kv, key_index, own, slot, query_column, lengths, rows, longest, slots, real_rows, scale,
    WIDTH: tl.constexpr, CHANNELS: tl.constexpr, CHUNK: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    SPAN: tl.constexpr, QUERY_SPAN: tl.constexpr, SELF: tl.constexpr, SOFTMAX: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(1) * CHANNELS
    key_row, key_column, key_at, key_here = key_places(key_index, lengths, rows, longest, N, SPAN)
    slot_at = tl.load(slot + key_row * longest + key_column, mask=key_here, other=0)
    row, column, at, out_at, here = query_places(
        key_index, own, query_column, lengths, rows, longest, slots, real_rows, M, N, SPAN, QUERY_SPAN, SELF
    )
    has_out = out_at >= 0
    scores = tl.zeros((M, N), tl.float32)
    if SOFTMAX:
        scores = scale * products(
            q + first, kv + first, at, key_at, here, key_here, WIDTH, 2 * WIDTH, M, N, CHANNELS, CHUNK, PRECISION
        )
    weights = attention_weights(scores, row, column, key_row, key_column, key_here, SOFTMAX)
    mix_and_store(
        tl.trans(weights), d_out + first, out_at, has_out, d_kv + WIDTH + first, slot_at, key_here,
        WIDTH, 2 * WIDTH, CHANNELS, CHUNK, PRECISION,
    )  # fmt: skip
    d_scores = tl.zeros((M, N), tl.float32)
    if SOFTMAX:
        d_weights = products(
            d_out + first, kv + WIDTH + first, out_at, key_at, has_out, key_here,
            WIDTH, 2 * WIDTH, M, N, CHANNELS, CHUNK, PRECISION,
        )  # fmt: skip
        d_scores = scale * weights * (d_weights - tl.sum(weights * d_weights, axis=1)[:, None])
    mix_and_store(
        d_scores, kv + first, key_at, key_here, d_q + first, out_at, has_out,
        2 * WIDTH, WIDTH, CHANNELS, CHUNK, PRECISION,
    )  # fmt: skip
    mix_and_store(
        tl.trans(d_scores), q + first, at, here, d_kv + first, slot_at, key_here,
        WIDTH, 2 * WIDTH, CHANNELS, CHUNK, PRECISION,
    )  # fmt: skip


@triton.jit
def backward_kernel(
    q, kv, d_out, d_q, d_kv, key_index, own, slot, query_column, lengths,
    q_rows, kv_rows, out_rows, slot_rows, rows, longest, slots, real_rows, scale,
    WIDTH: tl.constexpr, CHANNELS: tl.constexpr, CHUNK: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    SPAN: tl.constexpr, QUERY_SPAN: tl.constexpr, SELF: tl.constexpr, SOFTMAX: tl.constexpr, PRECISION: tl.constexpr,
    BY_LENGTH: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(2).to(tl.int64)
    q += seed * q_rows * WIDTH
    kv += seed * kv_rows * 2 * WIDTH
    d_out += seed * out_rows * WIDTH
    d_q += seed * out_rows * WIDTH
    d_kv += seed * slot_rows * 2 * WIDTH
    if not BY_LENGTH or belongs(lengths, N):
        backward_tile(
            q, kv, d_out, d_q, d_kv, key_index, own, slot, query_column, lengths,
            rows, longest, slots, real_rows, scale,
            WIDTH, CHANNELS, CHUNK, M, N, SPAN, QUERY_SPAN, SELF, SOFTMAX, PRECISION,
        )  # fmt: skip


def tilings(
    q: Tensor, heads: int, reads: Reads, softmax: bool, tf32: bool
) -> Iterator[tuple[tuple[int, int, int], dict[str, Any]]]:
    """Yield grids and sizes of attention: one launch per power of two up to the longest sequence.

    A program has one sequence or, if they are short, as many as fill a tile.
    """
    seeds, _, width = q.shape
    rows, longest = reads.index.shape
    chunk = max(16, min(LARGEST_CHUNK, triton.next_power_of_2(width // heads)))
    span, query_span = triton.next_power_of_2(longest), triton.next_power_of_2(reads.slots or 1)
    is_short = longest <= 16
    for tile in [LONGEST] if is_short else [size for size in (16, 32, 64) if size <= span]:
        sequences = tile // span if is_short else 1
        yield (
            (triton.cdiv(rows, sequences), heads, seeds),
            {
                "WIDTH": width,
                "CHANNELS": width // heads,
                "CHUNK": chunk,
                "M": max(16, query_span * sequences) if reads.slots else tile,
                "N": tile,
                "SPAN": tile // sequences,
                "QUERY_SPAN": query_span,
                "SELF": reads.slots is None,
                "SOFTMAX": softmax,
                "PRECISION": "tf32" if tf32 else "ieee",
                "BY_LENGTH": not is_short,
                "num_warps": (NARROW_WARPS if chunk <= 32 else WARPS)[tile],
            },
        )


def attend_forward(
    q: RowTensor, kv: Float[Tensor, "seed key both"], reads: Reads, outputs: int, heads: int, softmax: bool, tf32: bool
) -> Float[Tensor, "seed output width"]:
    """Return each query's attention output."""
    seeds, q_rows, width = q.shape
    out = q.new_empty((seeds, outputs, width))
    for grid, sizes in tilings(q, heads, reads, softmax, tf32):
        forward_kernel[grid](
            q, kv, out, reads.index, reads.own, reads.query_columns, reads.lengths,
            q_rows, kv.shape[1], outputs, *reads.index.shape, reads.slots or 0, reads.real_rows,
            (width // heads) ** -0.5, **sizes,
        )  # fmt: skip
    return out


def attend_backward(
    q: RowTensor,
    kv: Float[Tensor, "seed key both"],
    d_out: Float[Tensor, "seed output width"],
    reads: Reads,
    slots: int,
    heads: int,
    softmax: bool,
    tf32: bool,
) -> tuple[Float[Tensor, "seed output width"], Float[Tensor, "seed slot both"]]:
    """Return the gradients of each output's query, and of keys and values by slot."""
    seeds, q_rows, width = q.shape
    d_q = torch.empty_like(d_out)
    d_kv = kv.new_empty((seeds, slots, 2 * width))
    for grid, sizes in tilings(q, heads, reads, softmax, tf32):
        backward_kernel[grid](
            q, kv, d_out, d_q, d_kv, reads.index, reads.own, reads.slot, reads.query_columns, reads.lengths,
            q_rows, kv.shape[1], d_out.shape[1], slots, *reads.index.shape, reads.slots or 0, reads.real_rows,
            (width // heads) ** -0.5, **sizes,
        )  # fmt: skip
    return d_q, d_kv
