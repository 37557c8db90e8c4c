"""Mamba's convolution and selective scan of tokens packed by time. Tensors are (seed, token, channel).

A program runs one sequence and some channels through all times, with the state in registers.
"""

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int32, Int64
from torch import Tensor

from icecore.models.engines.scan import KEPT_BY_KERNELS

Tokens = Float[Tensor, "seed token channel"]
States = Float[Tensor, "seed token state"]
CHANNELS = 32  # per program of a scan: one per lane of its warp, whose registers hold the states


@triton.jit
def convolve_kernel(
    x, x_seed, x_row, weight, bias, first, second, third, out, tokens, channels,
    KERNEL: tl.constexpr, HAS_BIAS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Add to each token's weighted row those of its three neighbours; a neighbour `tokens` does not exist."""
    seed = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    on_rows, on_columns = row < tokens, column < channels
    x += seed * x_seed
    weight += (seed * channels + column) * KERNEL
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    if HAS_BIAS:
        total += tl.load(bias + seed * channels + column, mask=on_columns, other=0.0).to(tl.float32)[None, :]
    for lag in tl.static_range(KERNEL):
        at = row
        if lag == 1:
            at = tl.load(first + row, mask=on_rows, other=tokens)
        if lag == 2:
            at = tl.load(second + row, mask=on_rows, other=tokens)
        if lag == 3:
            at = tl.load(third + row, mask=on_rows, other=tokens)
        here = (on_rows & (at < tokens))[:, None] & on_columns[None, :]
        value = tl.load(x + at.to(tl.int64)[:, None] * x_row + column[None, :], mask=here, other=0.0)
        scale = tl.load(weight + (KERNEL - 1 - lag), mask=on_columns, other=0.0)
        total += value.to(tl.float32) * scale.to(tl.float32)[None, :]
    place = out + (seed * tokens + row.to(tl.int64)[:, None]) * channels + column[None, :]
    tl.store(place, total.to(out.dtype.element_ty), mask=on_rows[:, None] & on_columns[None, :])


def convolve(
    x: Tokens,
    weight: Float[Tensor, "seed channel kernel"],
    bias: Float[Tensor, "seed channel"] | None,
    neighbours: tuple[Int64[Tensor, " token"], ...],
) -> Tokens:
    """Return bias + sum of weight[kernel - 1 - lag] x[neighbours[lag]]; channels of x are adjacent."""
    seeds, tokens, channels = x.shape
    assert (x.stride(2), len(neighbours)) == (1, 4)
    out = torch.empty((seeds, tokens, channels), dtype=x.dtype, device=x.device)
    rows, columns = 16, max(16, min(128, triton.next_power_of_2(channels)))
    weight = weight.contiguous()
    convolve_kernel[(triton.cdiv(tokens, rows), triton.cdiv(channels, columns), seeds)](
        x, x.stride(0), x.stride(1), weight, weight if bias is None else bias.contiguous(), *neighbours[1:], out,
        tokens, channels, KERNEL=weight.shape[2], HAS_BIAS=bias is not None, ROWS=rows, COLUMNS=columns,
    )  # fmt: skip
    return out


@triton.jit
def softplus(x):
    return tl.where(x > 20.0, x, tl.log(1.0 + tl.exp(tl.minimum(x, 20.0))))  # SOURCE: torch's threshold


@triton.jit
def token_at(begins, time, length, sequence):
    """Return the row of a sequence's token, which exists before its length."""
    return (tl.load(begins + time, mask=time < length, other=0) + sequence).to(tl.int64)


@triton.jit
def scan_inputs(x, step, written, bias, at, exists, channel, n, channels, on_channels, on_states, STATE: tl.constexpr):
    """Return a token's input, its raw and its actual time step, and what it writes; a step of 0 where none exists."""
    value = tl.load(x + at * channels + channel, mask=on_channels & exists, other=0.0).to(tl.float32)
    raw = tl.load(step + at * channels + channel, mask=on_channels & exists, other=0.0).to(tl.float32) + bias
    wide = tl.where(on_channels & exists, softplus(raw), 0.0)
    into = tl.load(written + at * STATE + n, mask=on_states & exists, other=0.0)
    return value, raw, wide, into


@triton.jit
def scan_forward_kernel(
    x, step, bias, rate, skip, written, read, begins, kept_begins, lengths, out, kept, tokens, kept_states, channels,
    STATE: tl.constexpr, PADDED: tl.constexpr, CHANNELS: tl.constexpr, EVERY: tl.constexpr, KEEPS: tl.constexpr,
):  # fmt: skip
    sequence, seed = tl.program_id(0), tl.program_id(2).to(tl.int64)
    channel, n = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS), tl.arange(0, PADDED)
    on_channels, on_states = channel < channels, n < STATE
    both = on_states[:, None] & on_channels[None, :]
    x += seed * tokens * channels
    step += seed * tokens * channels
    out += seed * tokens * channels
    written += seed * tokens * STATE
    read += seed * tokens * STATE
    kept += seed * kept_states * STATE * channels
    own = seed * channels + channel
    offset = tl.load(bias + own, mask=on_channels, other=0.0)
    through = tl.load(skip + own, mask=on_channels, other=0.0)
    speed = tl.load(rate + own[None, :] * STATE + n[:, None], mask=both, other=0.0)
    length = tl.load(lengths + sequence)
    state = tl.zeros((PADDED, CHANNELS), tl.float32)
    time = 0
    while time < length:  # Triton's interpreter has no range of a loaded number
        at = token_at(begins, time, length, sequence)
        if KEEPS:
            is_kept = time % EVERY == 0
            slot = (tl.load(kept_begins + time // EVERY) + sequence).to(tl.int64)
            place = kept + (slot * STATE + n[:, None]) * channels + channel[None, :]
            tl.store(place, state, mask=both & is_kept)
        value, _, wide, into = scan_inputs(
            x, step, written, offset, at, True, channel, n, channels, on_channels, on_states, STATE
        )
        asked = tl.load(read + at * STATE + n, mask=on_states, other=0.0)
        state = tl.exp(wide[None, :] * speed) * state + (wide * value)[None, :] * into[:, None]
        result = tl.sum(state * asked[:, None], axis=0) + through * value
        tl.store(out + at * channels + channel, result.to(out.dtype.element_ty), mask=on_channels)
        time += 1


@triton.jit
def scan_backward_kernel(
    x, step, bias, rate, skip, written, read, begins, kept_begins, lengths, kept, gradient,
    by_x, by_step, by_rate, by_written, by_read, tokens, kept_states, channels,
    STATE: tl.constexpr, PADDED: tl.constexpr, CHANNELS: tl.constexpr, EVERY: tl.constexpr, NEEDS_RATE: tl.constexpr,
):  # fmt: skip
    sequence, seed = tl.program_id(0), tl.program_id(2).to(tl.int64)
    channel, n = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS), tl.arange(0, PADDED)
    on_channels, on_states = channel < channels, n < STATE
    both = on_states[:, None] & on_channels[None, :]
    x += seed * tokens * channels
    step += seed * tokens * channels
    gradient += seed * tokens * channels
    by_x += seed * tokens * channels
    by_step += seed * tokens * channels
    written += seed * tokens * STATE
    read += seed * tokens * STATE
    by_written += seed * tokens * STATE
    by_read += seed * tokens * STATE
    kept += seed * kept_states * STATE * channels
    own = seed * channels + channel
    offset = tl.load(bias + own, mask=on_channels, other=0.0)
    through = tl.load(skip + own, mask=on_channels, other=0.0)
    speed = tl.load(rate + own[None, :] * STATE + n[:, None], mask=both, other=0.0)
    length = tl.load(lengths + sequence)
    chunk = (length + EVERY - 1) // EVERY
    by_state = tl.zeros((PADDED, CHANNELS), tl.float32)
    total = tl.zeros((PADDED, CHANNELS), tl.float32)  # sum for the gradient of the rate
    while chunk > 0:
        chunk -= 1
        slot = (tl.load(kept_begins + chunk) + sequence).to(tl.int64)
        state = tl.load(kept + (slot * STATE + n[:, None]) * channels + channel[None, :], mask=both, other=0.0)
        before = ()
        for i in tl.static_range(EVERY):
            time = chunk * EVERY + i
            at = token_at(begins, time, length, sequence)
            value, _, wide, into = scan_inputs(
                x, step, written, offset, at, time < length, channel, n, channels, on_channels, on_states, STATE
            )
            before = before + (state,)  # noqa: RUF005  # Triton knows no star
            state = tl.exp(wide[None, :] * speed) * state + (wide * value)[None, :] * into[:, None]
        for j in tl.static_range(EVERY):
            time = chunk * EVERY + (EVERY - 1 - j)
            exists = time < length
            at = token_at(begins, time, length, sequence)
            value, raw, wide, into = scan_inputs(
                x, step, written, offset, at, exists, channel, n, channels, on_channels, on_states, STATE
            )
            asked = tl.load(read + at * STATE + n, mask=on_states & exists, other=0.0)
            d_out = tl.load(gradient + at * channels + channel, mask=on_channels & exists, other=0.0).to(tl.float32)
            tl.atomic_add(by_read + at * STATE + n, tl.sum(state * d_out[None, :], axis=1), mask=on_states & exists)
            by_state += d_out[None, :] * asked[:, None]
            by_added = tl.sum(by_state * into[:, None], axis=0)
            d_written = tl.sum(by_state * (wide * value)[None, :], axis=1)
            tl.atomic_add(by_written + at * STATE + n, d_written, mask=on_states & exists)
            by_state = by_state * tl.exp(wide[None, :] * speed)  # now by the state before
            state = before[EVERY - 1 - j]
            by_exponent = by_state * state
            d_wide = tl.sum(by_exponent * speed, axis=0) + by_added * value
            d_raw = d_wide / (1.0 + tl.exp(-raw))
            here = on_channels & exists
            tl.store(by_step + at * channels + channel, d_raw.to(by_step.dtype.element_ty), mask=here)
            d_x = by_added * wide + d_out * through
            tl.store(by_x + at * channels + channel, d_x.to(by_x.dtype.element_ty), mask=here)
            if NEEDS_RATE:
                total += by_exponent * wide[None, :]
    if NEEDS_RATE:
        tl.atomic_add(by_rate + own[None, :] * STATE + n[:, None], total, mask=both)


def scan_sizes(rate: Float[Tensor, "seed channel state"]) -> dict[str, int]:
    state = rate.shape[2]
    padded = triton.next_power_of_2(state)
    return {"STATE": state, "PADDED": padded, "CHANNELS": CHANNELS, "EVERY": KEPT_BY_KERNELS, "num_warps": 1}


def scan_forward(
    x: Tokens,
    step: Tokens,
    bias: Float[Tensor, "seed channel"],
    rate: Float[Tensor, "seed channel state"],
    skip: Float[Tensor, "seed channel"],
    written: States,
    read: States,
    places: tuple[Int32[Tensor, " _"], ...],
    kept_states: int,
) -> tuple[Tokens, Float[Tensor, "seed kept state channel"]]:
    """Return the scan's output plus skip x, and the states kept for backward; `step` is before bias and softplus.

    `places` are where each time and each kept time begins, and the lengths of the sequences.
    """
    seeds, tokens, channels = x.shape
    out = torch.empty_like(x)
    kept = torch.empty((seeds, kept_states, rate.shape[2], channels), device=x.device)
    grid = (len(places[2]), triton.cdiv(channels, CHANNELS), seeds)
    scan_forward_kernel[grid](
        x, step, bias, rate, skip, written, read, *places, out, kept, tokens, kept_states, channels,
        KEEPS=kept_states > 0, **scan_sizes(rate),
    )  # fmt: skip
    return out, kept


def scan_backward(
    x: Tokens,
    step: Tokens,
    bias: Float[Tensor, "seed channel"],
    rate: Float[Tensor, "seed channel state"],
    skip: Float[Tensor, "seed channel"],
    written: States,
    read: States,
    places: tuple[Int32[Tensor, " _"], ...],
    kept: Float[Tensor, "seed kept state channel"],
    gradient: Tokens,
    needs_rate: bool,
) -> tuple[Tokens, Tokens, Float[Tensor, "seed channel state"] | None, States, States]:
    """Return the gradients of x, step, rate, written and read."""
    seeds, tokens, channels = x.shape
    by_x, by_step = torch.empty_like(x), torch.empty_like(step)
    by_rate = torch.zeros_like(rate) if needs_rate else None
    by_written, by_read = torch.zeros_like(written), torch.zeros_like(read)
    grid = (len(places[2]), triton.cdiv(channels, CHANNELS), seeds)
    scan_backward_kernel[grid](
        x, step, bias, rate, skip, written, read, *places, kept, gradient,
        by_x, by_step, rate if by_rate is None else by_rate, by_written, by_read, tokens, kept.shape[1], channels,
        NEEDS_RATE=needs_rate, **scan_sizes(rate),
    )  # fmt: skip
    return by_x, by_step, by_rate, by_written, by_read
