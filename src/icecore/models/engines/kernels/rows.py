"""Sums over sorted rows, and norms that also add to the residual stream. Tensors are (seed, row, channel)."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int32
from torch import Tensor

RowTensor = Float[Tensor, "seed row width"]
PROGRAMS = 1024  # about as many, if each sums its own rows of a gradient


@triton.jit
def segment_sum_kernel(
    values, order, key, out, count, value_rows, segments,
    WIDTH: tl.constexpr, CHUNK: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sum up to CHUNK rows by key with one small matrix product, and add the sums to their segments."""
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
    """Return out with out[key[i]] += values[order[i]], in float32; `key` is sorted, and key `segments` is skipped."""
    seeds, rows, width = values.shape
    values = values.contiguous()
    out = torch.zeros((seeds, segments, width), dtype=torch.float32, device=values.device)
    chunk, columns = 16, max(16, min(256, triton.next_power_of_2(width)))
    grid = (triton.cdiv(len(order), chunk), triton.cdiv(width, columns), seeds)
    segment_sum_kernel[grid](
        values, order, key, out, len(order), rows, segments, WIDTH=width, CHUNK=chunk, COLUMNS=columns
    )
    return out


@triton.jit
def add_rows_kernel(
    out, index, values, out_stride, rows,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.arange(0, PADDED)
    here = (row < rows)[:, None] & (column < WIDTH)[None, :]
    target = tl.load(index + row, mask=row < rows, other=0).to(tl.int64)
    value = tl.load(values + seed * rows * WIDTH + row.to(tl.int64)[:, None] * WIDTH + column[None, :], mask=here)
    out += seed * out_stride
    tl.atomic_add(out + target[:, None] * WIDTH + column[None, :], value, mask=here, sem="relaxed")


def add_rows(out: RowTensor, index: Int32[Tensor, " item"], values: Float[Tensor, "seed item width"]) -> RowTensor:
    """Add values[:, i] to out[:, index[i]] in place; indices may repeat."""
    seeds, rows, _ = values.shape
    block, sizes = row_sizes(out)
    add_rows_kernel[(triton.cdiv(rows, block), seeds)](out, index, values.contiguous(), out.stride(0), rows, **sizes)
    return out


@triton.jit
def norm_forward_kernel(
    x, added, shift, total, y, moments, weight, bias, rows, epsilon,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr,
    ADDS: tl.constexpr, SHIFTS: tl.constexpr, AFFINE: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.arange(0, PADDED)
    here = (row < rows)[:, None] & (column < WIDTH)[None, :]
    at = seed * rows * WIDTH + row.to(tl.int64)[:, None] * WIDTH + column[None, :]
    value = tl.load(x + at, mask=here, other=0.0).to(tl.float32)
    if ADDS:
        value += tl.load(added + at, mask=here, other=0.0).to(tl.float32)
        if SHIFTS:
            value += tl.load(shift + seed * WIDTH + column, mask=column < WIDTH, other=0.0).to(tl.float32)[None, :]
        value = value.to(total.dtype.element_ty)
        tl.store(total + at, value, mask=here)
        value = value.to(tl.float32)
    mean = tl.sum(value, axis=1) / WIDTH
    centred = tl.where(here, value - mean[:, None], 0.0)
    over_std = tl.rsqrt(tl.sum(centred * centred, axis=1) / WIDTH + epsilon)
    place = moments + 2 * (seed * rows + row)
    tl.store(place, mean, mask=row < rows)
    tl.store(place + 1, over_std, mask=row < rows)
    result = centred * over_std[:, None]
    if AFFINE:
        scale = tl.load(weight + seed * WIDTH + column, mask=column < WIDTH, other=0.0).to(tl.float32)
        shift = tl.load(bias + seed * WIDTH + column, mask=column < WIDTH, other=0.0).to(tl.float32)
        result = result * scale[None, :] + shift[None, :]
    tl.store(y + at, result.to(y.dtype.element_ty), mask=here)


@triton.jit
def norm_backward_kernel(
    x, moments, d_y, d_kept, d_x, weight, d_shift, d_weight, d_bias, rows,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr, TURNS: tl.constexpr,
    SHIFTS: tl.constexpr, AFFINE: tl.constexpr, KEPT: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(1).to(tl.int64)
    column = tl.arange(0, PADDED)
    on_width = column < WIDTH
    if AFFINE:
        scale = tl.load(weight + seed * WIDTH + column, mask=on_width, other=0.0).to(tl.float32)
        sum_weight = tl.zeros((PADDED,), tl.float32)
        sum_bias = tl.zeros((PADDED,), tl.float32)
    if SHIFTS:
        sum_shift = tl.zeros((PADDED,), tl.float32)
    for turn in range(TURNS):
        row = (tl.program_id(0) * TURNS + turn) * BLOCK + tl.arange(0, BLOCK)
        here = (row < rows)[:, None] & on_width[None, :]
        at = seed * rows * WIDTH + row.to(tl.int64)[:, None] * WIDTH + column[None, :]
        value = tl.load(x + at, mask=here, other=0.0).to(tl.float32)
        gradient = tl.load(d_y + at, mask=here, other=0.0).to(tl.float32)
        place = moments + 2 * (seed * rows + row)
        mean = tl.load(place, mask=row < rows, other=0.0)[:, None]
        over_std = tl.load(place + 1, mask=row < rows, other=0.0)[:, None]
        unit = tl.where(here, (value - mean) * over_std, 0.0)
        if AFFINE:
            sum_weight += tl.sum(gradient * unit, axis=0)
            sum_bias += tl.sum(gradient, axis=0)
            gradient = gradient * scale[None, :]
        along = (tl.sum(gradient * unit, axis=1) / WIDTH)[:, None]
        result = over_std * (gradient - (tl.sum(gradient, axis=1) / WIDTH)[:, None] - unit * along)
        if KEPT:
            result += tl.load(d_kept + at, mask=here, other=0.0).to(tl.float32)
        tl.store(d_x + at, result.to(d_x.dtype.element_ty), mask=here)
        if SHIFTS:
            sum_shift += tl.sum(tl.where(here, result, 0.0), axis=0)
    if AFFINE:
        tl.atomic_add(d_weight + seed * WIDTH + column, sum_weight, mask=on_width)
        tl.atomic_add(d_bias + seed * WIDTH + column, sum_bias, mask=on_width)
    if SHIFTS:
        tl.atomic_add(d_shift + seed * WIDTH + column, sum_shift, mask=on_width)


def row_sizes(x: RowTensor) -> tuple[int, dict[str, int]]:
    """Return the rows per program, about 2,048 numbers, and its sizes."""
    padded = triton.next_power_of_2(x.shape[2])
    block = max(1, 2048 // padded)
    return block, {"WIDTH": x.shape[2], "PADDED": padded, "BLOCK": block, "num_warps": 4}


def norm_forward(
    x: RowTensor,
    added: RowTensor | None,
    shift: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    dtype: torch.dtype,
    epsilon: float,
) -> tuple[RowTensor, RowTensor, Float[Tensor, "seed row 2"]]:
    """Return the norm of x + added + shift, that sum, and its mean and 1 / standard deviation.

    Shift, weight and bias are (seed, width).
    """
    seeds, rows, _ = x.shape
    y = torch.empty_like(x, dtype=dtype)
    moments = torch.empty((seeds, rows, 2), device=x.device)
    total = x if added is None else torch.empty_like(x)
    block, sizes = row_sizes(x)
    norm_forward_kernel[(triton.cdiv(rows, block), seeds)](
        x, x if added is None else added, x if shift is None else shift, total, y, moments,
        x if weight is None else weight, x if bias is None else bias, rows, epsilon,
        ADDS=added is not None, SHIFTS=shift is not None, AFFINE=weight is not None, **sizes,
    )  # fmt: skip
    return y, total, moments


def norm_backward(
    x: RowTensor,
    moments: Float[Tensor, "seed row 2"],
    d_y: RowTensor,
    d_kept: RowTensor | None,
    weight: Tensor | None,
    shifted: bool = False,
) -> tuple[RowTensor, Tensor | None, Tensor | None, Tensor | None]:
    """Return the gradients of the sum x, plus `d_kept`, and of shift, weight and bias where they exist."""
    seeds, rows, width = x.shape
    d_x = torch.empty_like(x)
    block, sizes = row_sizes(x)
    d_shift = d_weight = d_bias = None
    turns = 1
    if shifted or weight is not None:  # each program sums its own rows first
        d_shift, d_weight, d_bias = torch.zeros((3, seeds, width), device=x.device)
        turns = triton.next_power_of_2(triton.cdiv(rows * seeds, PROGRAMS * block))
        sizes["num_warps"] = min(4, max(2, width // 256))  # sums need registers
    norm_backward_kernel[(triton.cdiv(rows, block * turns), seeds)](
        x, moments, d_y, x if d_kept is None else d_kept, d_x, x if weight is None else weight,
        *(x if sums is None else sums for sums in (d_shift, d_weight, d_bias)), rows,
        TURNS=turns, SHIFTS=shifted, AFFINE=weight is not None, KEPT=d_kept is not None, **sizes,
    )  # fmt: skip
    return d_x, d_shift, d_weight, d_bias
