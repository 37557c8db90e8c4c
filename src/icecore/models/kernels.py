"""Triton kernels of the packed forward pass: attention through an index, and sums over sorted rows.

Imported on a GPU alone. Sequences have at most 64 tokens here, so one program holds all of a row's scores:
nothing is kept for the backward pass but the inputs. Tensors are (seed, row, channel).
"""

from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int32
from torch import Tensor

from icecore.models.packing import Reads

Rows = Float[Tensor, "seed row width"]
LONGEST = 64  # tokens of a sequence, and scored positions of one
LARGEST_HEAD_BYTES = 512  # of one token's channels in one head: four tiles of them must fit a block's memory


@triton.jit
def load_tile(base, at, here, channel, CHANNELS: tl.constexpr, row_stride: tl.constexpr):
    """Rows `at` of a matrix, (rows, channels) of one head; 0 where there is none."""
    place = base + at.to(tl.int64)[:, None] * row_stride + channel[None, :]
    return tl.load(place, mask=here[:, None] & (channel < CHANNELS)[None, :], other=0.0)


@triton.jit
def store_tile(base, at, here, channel, value, CHANNELS: tl.constexpr, row_stride: tl.constexpr):
    place = base + at.to(tl.int64)[:, None] * row_stride + channel[None, :]
    tl.store(place, value.to(base.dtype.element_ty), mask=here[:, None] & (channel < CHANNELS)[None, :])


@triton.jit
def key_places(key_index, lengths, rows, longest, N: tl.constexpr, SPAN: tl.constexpr):
    """The keys of a tile, which holds N / SPAN sequences: their sequence, column, row of kv, and if they exist."""
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
    """The queries of a tile: their sequence, column, row of q, row of the output (-1: none), and if they exist."""
    m = tl.arange(0, M)
    if SELF:
        row, column, at, here = key_places(key_index, lengths, rows, longest, M, SPAN)
        out = tl.load(own + row * longest + column, mask=here, other=-1)
        return row, column, at, out, here
    else:
        row = tl.program_id(0) * (N // SPAN) + m // QUERY_SPAN
        here = (m // QUERY_SPAN < N // SPAN) & (m % QUERY_SPAN < slots) & (row < real_rows)
        at = row * slots + m % QUERY_SPAN
        column = tl.load(query_column + at, mask=here, other=0)
        return row, column, at, tl.where(here, at, -1), here


@triton.jit
def attention_weights(
    query, key, query_row, query_column, key_row, key_column, key_here, scale,
    SOFTMAX: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    visible = (key_row[None, :] == query_row[:, None]) & (key_column[None, :] <= query_column[:, None])
    visible = visible & key_here[None, :]
    if SOFTMAX:
        scores = tl.dot(query, tl.trans(key), input_precision=PRECISION) * scale
        scores = tl.where(visible, scores, -1e30)  # finite: a query that does not exist may see nothing
        weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])
        return weights / tl.sum(weights, axis=1)[:, None]
    else:
        return visible.to(tl.float32)


@triton.jit
def forward_tile(
    q, kv, out, key_index, own, query_column, lengths, rows, longest, slots, real_rows, scale,
    WIDTH: tl.constexpr, CHANNELS: tl.constexpr, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    SPAN: tl.constexpr, QUERY_SPAN: tl.constexpr, SELF: tl.constexpr, SOFTMAX: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    channel = tl.arange(0, D)
    first = tl.program_id(1) * CHANNELS
    key_row, key_column, key_at, key_here = key_places(key_index, lengths, rows, longest, N, SPAN)
    row, column, at, out_at, here = query_places(
        key_index, own, query_column, lengths, rows, longest, slots, real_rows, M, N, SPAN, QUERY_SPAN, SELF
    )
    query = load_tile(q + first, at, here, channel, CHANNELS, WIDTH)
    key = load_tile(kv + first, key_at, key_here, channel, CHANNELS, 2 * WIDTH)
    value = load_tile(kv + WIDTH + first, key_at, key_here, channel, CHANNELS, 2 * WIDTH)
    weights = attention_weights(query, key, row, column, key_row, key_column, key_here, scale, SOFTMAX, PRECISION)
    mixed = tl.dot(weights.to(value.dtype), value, input_precision=PRECISION)
    store_tile(out + first, out_at, out_at >= 0, channel, mixed, CHANNELS, WIDTH)


@triton.jit
def forward_kernel(
    q, kv, out, key_index, own, query_column, lengths,
    q_rows, kv_rows, out_rows, rows, longest, slots, real_rows, scale,
    WIDTH: tl.constexpr, CHANNELS: tl.constexpr, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    SPAN: tl.constexpr, QUERY_SPAN: tl.constexpr, SELF: tl.constexpr, SOFTMAX: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(2).to(tl.int64)
    q += seed * q_rows * WIDTH
    kv += seed * kv_rows * 2 * WIDTH
    out += seed * out_rows * WIDTH
    # A tile of one sequence is as small as the sequence.
    length = N if SPAN < N else tl.load(lengths + tl.program_id(0))
    if length > N // 2:
        forward_tile(
            q, kv, out, key_index, own, query_column, lengths, rows, longest, slots, real_rows, scale,
            WIDTH, CHANNELS, D, M, N, SPAN, QUERY_SPAN, SELF, SOFTMAX, PRECISION,
        )  # fmt: skip
    elif N > 16 and length > N // 4:
        forward_tile(
            q, kv, out, key_index, own, query_column, lengths, rows, longest, slots, real_rows, scale,
            WIDTH, CHANNELS, D, M // 2 if SELF else M, N // 2, SPAN // 2, QUERY_SPAN, SELF, SOFTMAX, PRECISION,
        )  # fmt: skip
    elif length > 0:
        forward_tile(
            q, kv, out, key_index, own, query_column, lengths, rows, longest, slots, real_rows, scale,
            WIDTH, CHANNELS, D, (M if N <= 16 else (M // 2 if N <= 32 else M // 4)) if SELF else M,
            N if N <= 16 else (N // 2 if N <= 32 else N // 4), SPAN if N <= 16 else (SPAN // 2 if N <= 32 else SPAN // 4),
            QUERY_SPAN, SELF, SOFTMAX, PRECISION,
        )  # fmt: skip


@triton.jit
def backward_tile(
    q, kv, d_out, d_q, d_kv, key_index, own, slot, query_column, lengths, rows, longest, slots, real_rows, scale,
    WIDTH: tl.constexpr, CHANNELS: tl.constexpr, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    SPAN: tl.constexpr, QUERY_SPAN: tl.constexpr, SELF: tl.constexpr, SOFTMAX: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    channel = tl.arange(0, D)
    first = tl.program_id(1) * CHANNELS
    key_row, key_column, key_at, key_here = key_places(key_index, lengths, rows, longest, N, SPAN)
    slot_at = tl.load(slot + key_row * longest + key_column, mask=key_here, other=0)
    row, column, at, out_at, here = query_places(
        key_index, own, query_column, lengths, rows, longest, slots, real_rows, M, N, SPAN, QUERY_SPAN, SELF
    )
    query = load_tile(q + first, at, here, channel, CHANNELS, WIDTH)
    key = load_tile(kv + first, key_at, key_here, channel, CHANNELS, 2 * WIDTH)
    weights = attention_weights(query, key, row, column, key_row, key_column, key_here, scale, SOFTMAX, PRECISION)
    d_mixed = load_tile(d_out + first, out_at, out_at >= 0, channel, CHANNELS, WIDTH)
    d_value = tl.dot(tl.trans(weights.to(d_mixed.dtype)), d_mixed, input_precision=PRECISION)
    store_tile(d_kv + WIDTH + first, slot_at, key_here, channel, d_value, CHANNELS, 2 * WIDTH)
    if SOFTMAX:
        value = load_tile(kv + WIDTH + first, key_at, key_here, channel, CHANNELS, 2 * WIDTH)
        d_weights = tl.dot(d_mixed, tl.trans(value), input_precision=PRECISION)
        d_scores = weights * (d_weights - tl.sum(weights * d_weights, axis=1)[:, None]) * scale
        d_scores = d_scores.to(query.dtype)
        d_query = tl.dot(d_scores, key, input_precision=PRECISION)
        store_tile(d_q + first, out_at, out_at >= 0, channel, d_query, CHANNELS, WIDTH)
        d_key = tl.dot(tl.trans(d_scores), query, input_precision=PRECISION)
        store_tile(d_kv + first, slot_at, key_here, channel, d_key, CHANNELS, 2 * WIDTH)
    else:
        nothing = tl.zeros((M, D), tl.float32)
        store_tile(d_q + first, out_at, out_at >= 0, channel, nothing, CHANNELS, WIDTH)
        nothing = tl.zeros((N, D), tl.float32)
        store_tile(d_kv + first, slot_at, key_here, channel, nothing, CHANNELS, 2 * WIDTH)


@triton.jit
def backward_kernel(
    q, kv, d_out, d_q, d_kv, key_index, own, slot, query_column, lengths,
    q_rows, kv_rows, out_rows, slot_rows, rows, longest, slots, real_rows, scale,
    WIDTH: tl.constexpr, CHANNELS: tl.constexpr, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    SPAN: tl.constexpr, QUERY_SPAN: tl.constexpr, SELF: tl.constexpr, SOFTMAX: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(2).to(tl.int64)
    q += seed * q_rows * WIDTH
    kv += seed * kv_rows * 2 * WIDTH
    d_out += seed * out_rows * WIDTH
    d_q += seed * out_rows * WIDTH
    d_kv += seed * slot_rows * 2 * WIDTH
    length = N if SPAN < N else tl.load(lengths + tl.program_id(0))
    if length > N // 2:
        backward_tile(
            q, kv, d_out, d_q, d_kv, key_index, own, slot, query_column, lengths, rows, longest, slots, real_rows, scale,
            WIDTH, CHANNELS, D, M, N, SPAN, QUERY_SPAN, SELF, SOFTMAX, PRECISION,
        )  # fmt: skip
    elif N > 16 and length > N // 4:
        backward_tile(
            q, kv, d_out, d_q, d_kv, key_index, own, slot, query_column, lengths, rows, longest, slots, real_rows, scale,
            WIDTH, CHANNELS, D, M // 2 if SELF else M, N // 2, SPAN // 2, QUERY_SPAN, SELF, SOFTMAX, PRECISION,
        )  # fmt: skip
    elif length > 0:
        backward_tile(
            q, kv, d_out, d_q, d_kv, key_index, own, slot, query_column, lengths, rows, longest, slots, real_rows, scale,
            WIDTH, CHANNELS, D, (M if N <= 16 else (M // 2 if N <= 32 else M // 4)) if SELF else M,
            N if N <= 16 else (N // 2 if N <= 32 else N // 4), SPAN if N <= 16 else (SPAN // 2 if N <= 32 else SPAN // 4),
            QUERY_SPAN, SELF, SOFTMAX, PRECISION,
        )  # fmt: skip


@triton.jit
def segment_sum_kernel(
    values, order, key, out, count, value_rows, segments,
    WIDTH: tl.constexpr, CHUNK: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sums of up to CHUNK rows with equal keys by one small matrix product, added to their segments."""
    seed = tl.program_id(2).to(tl.int64)
    values += seed * value_rows * WIDTH
    out += seed * segments * WIDTH
    item = tl.arange(0, CHUNK)
    at = tl.program_id(0) * CHUNK + item
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    keys = tl.load(key + at, mask=at < count, other=segments)
    before = tl.load(key + at - 1, mask=(at < count) & (item > 0), other=-1)
    part = tl.cumsum(((keys != before) & (item > 0)).to(tl.int32), axis=0)
    rows = tl.load(order + at, mask=keys < segments, other=0)
    place = values + rows.to(tl.int64)[:, None] * WIDTH + column[None, :]
    tile = tl.load(place, mask=(keys < segments)[:, None] & (column < WIDTH)[None, :], other=0.0)
    belongs = item[:, None] == part[None, :]
    sums = tl.dot(belongs.to(tile.dtype), tile, input_precision="ieee")
    target = tl.max(tl.where(belongs, keys[None, :], -1), axis=1)
    place = out + target.to(tl.int64)[:, None] * WIDTH + column[None, :]
    exists = (target >= 0) & (target < segments)
    tl.atomic_add(place, sums, mask=exists[:, None] & (column < WIDTH)[None, :])


def segment_sum(
    values: Float[Tensor, "seed row width"], order: Int32[Tensor, " item"], key: Int32[Tensor, " item"], segments: int
) -> Float[Tensor, "seed segment width"]:
    """out[key[i]] += values[order[i]], in float32; `key` is sorted, and a key of `segments` belongs to none."""
    seeds, rows, width = values.shape
    values = values.contiguous()
    out = torch.zeros((seeds, segments, width), dtype=torch.float32, device=values.device)
    chunk, columns = 16, max(16, min(256, triton.next_power_of_2(width)))
    grid = (triton.cdiv(len(order), chunk), triton.cdiv(width, columns), seeds)
    segment_sum_kernel[grid](
        values, order, key, out, len(order), rows, segments, WIDTH=width, CHUNK=chunk, COLUMNS=columns
    )
    return out


def tiling(q: Tensor, heads: int, reads: Reads, softmax: bool, tf32: bool) -> tuple[tuple[int, int, int], dict[str, Any]]:
    """The grid and the sizes of attention: one long sequence a program, or as many short ones as fill a tile."""
    seeds, _, width = q.shape
    rows, longest = reads.index.shape
    channels = width // heads
    padded = max(16, triton.next_power_of_2(channels))
    span, query_span = triton.next_power_of_2(longest), triton.next_power_of_2(reads.slots or 1)
    tile = span if span > 16 else max(16, 64 // query_span * span if reads.slots else 64)
    tile = min(tile, 64)
    span = max(span, 16) if tile < 2 * span else span
    sequences = tile // span
    sizes = {
        "WIDTH": width,
        "CHANNELS": channels,
        "D": padded,
        "M": max(16, query_span * sequences) if reads.slots else tile,
        "N": tile,
        "SPAN": span,
        "QUERY_SPAN": query_span,
        "SELF": reads.slots is None,
        "SOFTMAX": softmax,
        "PRECISION": "tf32" if tf32 else "ieee",
        "num_warps": 2 if padded <= 32 else 4 if padded <= 128 else 8,
    }
    return (triton.cdiv(rows, sequences), heads, seeds), sizes


def attend_forward(
    q: Rows, kv: Float[Tensor, "seed key both"], reads: Reads, outputs: int, heads: int, softmax: bool, tf32: bool
) -> Float[Tensor, "seed output width"]:
    """Each query's mix of values."""
    seeds, q_rows, width = q.shape
    out = q.new_empty((seeds, outputs, width))
    grid, sizes = tiling(q, heads, reads, softmax, tf32)
    forward_kernel[grid](
        q, kv, out, reads.index, reads.own, reads.query_columns, reads.lengths,
        q_rows, kv.shape[1], outputs, *reads.index.shape, reads.slots or 0, reads.real_rows, (width // heads) ** -0.5,
        **sizes,
    )  # fmt: skip
    return out


def attend_backward(
    q: Rows,
    kv: Float[Tensor, "seed key both"],
    d_out: Float[Tensor, "seed output width"],
    reads: Reads,
    slots: int,
    heads: int,
    softmax: bool,
    tf32: bool,
) -> tuple[Float[Tensor, "seed output width"], Float[Tensor, "seed slot both"]]:
    """Gradients: of each output's query, and of keys and values by slot."""
    seeds, q_rows, width = q.shape
    d_q = torch.empty_like(d_out)
    d_kv = kv.new_empty((seeds, slots, 2 * width))
    grid, sizes = tiling(q, heads, reads, softmax, tf32)
    backward_kernel[grid](
        q, kv, d_out, d_q, d_kv, reads.index, reads.own, reads.slot, reads.query_columns, reads.lengths,
        q_rows, kv.shape[1], d_out.shape[1], slots, *reads.index.shape, reads.slots or 0, reads.real_rows,
        (width // heads) ** -0.5, **sizes,
    )  # fmt: skip
    return d_q, d_kv


@triton.jit
def norm_forward_kernel(
    x, y, weight, bias, rows, epsilon,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr, AFFINE: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.arange(0, PADDED)
    here = (row < rows)[:, None] & (column < WIDTH)[None, :]
    at = seed * rows * WIDTH + row.to(tl.int64)[:, None] * WIDTH + column[None, :]
    value = tl.load(x + at, mask=here, other=0.0).to(tl.float32)
    centred = tl.where(here, value - (tl.sum(value, axis=1) / WIDTH)[:, None], 0.0)
    result = centred * tl.rsqrt(tl.sum(centred * centred, axis=1) / WIDTH + epsilon)[:, None]
    if AFFINE:
        scale = tl.load(weight + seed * WIDTH + column, mask=column < WIDTH, other=0.0).to(tl.float32)
        shift = tl.load(bias + seed * WIDTH + column, mask=column < WIDTH, other=0.0).to(tl.float32)
        result = result * scale[None, :] + shift[None, :]
    tl.store(y + at, result.to(y.dtype.element_ty), mask=here)


@triton.jit
def norm_backward_kernel(
    x, d_y, d_kept, d_x, weight, d_weight, d_bias, rows, epsilon,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr, TURNS: tl.constexpr,
    AFFINE: tl.constexpr, KEPT: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(1).to(tl.int64)
    column = tl.arange(0, PADDED)
    on_width = column < WIDTH
    if AFFINE:
        scale = tl.load(weight + seed * WIDTH + column, mask=on_width, other=0.0).to(tl.float32)
        sum_weight = tl.zeros((PADDED,), tl.float32)
        sum_bias = tl.zeros((PADDED,), tl.float32)
    for turn in range(TURNS):
        row = (tl.program_id(0) * TURNS + turn) * BLOCK + tl.arange(0, BLOCK)
        here = (row < rows)[:, None] & on_width[None, :]
        at = seed * rows * WIDTH + row.to(tl.int64)[:, None] * WIDTH + column[None, :]
        value = tl.load(x + at, mask=here, other=0.0).to(tl.float32)
        gradient = tl.load(d_y + at, mask=here, other=0.0).to(tl.float32)
        centred = tl.where(here, value - (tl.sum(value, axis=1) / WIDTH)[:, None], 0.0)
        over_std = tl.rsqrt(tl.sum(centred * centred, axis=1) / WIDTH + epsilon)[:, None]
        unit = centred * over_std
        if AFFINE:
            sum_weight += tl.sum(gradient * unit, axis=0)
            sum_bias += tl.sum(gradient, axis=0)
            gradient = gradient * scale[None, :]
        along = (tl.sum(gradient * unit, axis=1) / WIDTH)[:, None]
        result = over_std * (gradient - (tl.sum(gradient, axis=1) / WIDTH)[:, None] - unit * along)
        if KEPT:
            result += tl.load(d_kept + at, mask=here, other=0.0).to(tl.float32)
        tl.store(d_x + at, result.to(d_x.dtype.element_ty), mask=here)
    if AFFINE:
        tl.atomic_add(d_weight + seed * WIDTH + column, sum_weight, mask=on_width)
        tl.atomic_add(d_bias + seed * WIDTH + column, sum_bias, mask=on_width)


def norm_sizes(x: Rows) -> tuple[int, dict[str, int]]:
    """Rows a program, and its sizes: about 2,048 numbers."""
    padded = triton.next_power_of_2(x.shape[2])
    block = max(1, 2048 // padded)
    return block, {"WIDTH": x.shape[2], "PADDED": padded, "BLOCK": block, "num_warps": 4}


def norm_forward(x: Rows, weight: Tensor | None, bias: Tensor | None, dtype: torch.dtype, epsilon: float) -> Rows:
    """Each row less its mean, over its standard deviation; weight and bias are (seed, width), both or neither."""
    seeds, rows, _ = x.shape
    y = torch.empty_like(x, dtype=dtype)
    block, sizes = norm_sizes(x)
    norm_forward_kernel[(triton.cdiv(rows, block), seeds)](
        x, y, x if weight is None else weight, x if bias is None else bias, rows, epsilon,
        AFFINE=weight is not None, **sizes,
    )  # fmt: skip
    return y


def norm_backward(
    x: Rows, d_y: Rows, d_kept: Rows | None, weight: Tensor | None, epsilon: float
) -> tuple[Rows, Tensor | None, Tensor | None]:
    """Gradients of the input, to which `d_kept` is added, and of weight and bias."""
    seeds, rows, width = x.shape
    d_x = torch.empty_like(x)
    block, sizes = norm_sizes(x)
    d_weight = d_bias = None
    turns = 1
    if weight is not None:  # their sums are added up in each program before they meet
        d_weight, d_bias = (torch.zeros((seeds, width), device=x.device) for _ in range(2))
        turns = triton.next_power_of_2(triton.cdiv(rows * seeds, 1024 * block))
    norm_backward_kernel[(triton.cdiv(rows, block * turns), seeds)](
        x, d_y, x if d_kept is None else d_kept, d_x, x if weight is None else weight,
        x if d_weight is None else d_weight, x if d_bias is None else d_bias, rows, epsilon,
        TURNS=turns, AFFINE=weight is not None, KEPT=d_kept is not None, **sizes,
    )  # fmt: skip
    return d_x, d_weight, d_bias
