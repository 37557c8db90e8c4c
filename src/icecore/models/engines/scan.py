"""Mamba's convolution and scan of tokens packed by time: plain, and by kernels on a GPU."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int32, Int64
from torch import Tensor

from icecore.models.engines.devices import has_kernels
from icecore.models.engines.fused import Nodes
from icecore.models.mamba import KERNEL

KEPT_BY_KERNELS = 4  # times between the states that a kernel keeps for backward
STATES_KEPT_EVERY = 8  # times; backward computes those between again
STATES_AT_ONCE = {"cpu": 2**18, "cuda": 2**40}  # numbers of a state that fit a CPU's cache


@dataclass(frozen=True)
class Times:
    """Positions of each sequence's tokens among tokens packed by time."""

    sizes: tuple[int, ...]
    column: Int64[Tensor, " token"]
    earlier: tuple[Int64[Tensor, " token"], ...]  # 0, 1, ... tokens earlier, one past the end if there is none
    later: tuple[Int64[Tensor, " token"], ...]
    begins: Int32[Tensor, " time"]  # where each time begins among the tokens
    kept_begins: Int32[Tensor, " kept"]  # where each time begins among the states that a kernel keeps
    lengths: Int32[Tensor, " sequence"]

    @property
    def kept_states(self) -> int:
        """Return how many states of a sequence at a time a kernel keeps for backward."""
        return sum(self.sizes[::KEPT_BY_KERNELS])

    @staticmethod
    def of(sizes: Sequence[int], device: torch.device) -> "Times":
        size, total = torch.tensor(sizes), sum(sizes)
        begin = size.cumsum(dim=0) - size
        column = torch.arange(len(sizes)).repeat_interleave(size)
        rank = torch.arange(total) - begin[column]

        def moved(by: int) -> Int64[Tensor, " token"]:
            time = column + by
            inside = time.clamp(0, len(sizes) - 1)
            exists = (time == inside) & (rank < size[inside])
            return (begin[inside] + rank).where(exists, total).to(device)

        lags, kept = range(KERNEL), size[::KEPT_BY_KERNELS]
        lengths = (size > torch.arange(sizes[0])[:, None]).sum(dim=1)
        return Times(
            tuple(sizes),
            column.to(device),
            tuple(map(moved, (-lag for lag in lags))),
            tuple(map(moved, lags)),
            *(each.int().to(device) for each in (begin, kept.cumsum(dim=0) - kept, lengths)),
        )


class Convolution(torch.autograd.Function):
    """`mamba.convolved` of tokens packed by time. A token has at most one successor, so backward gathers too."""

    @staticmethod
    def forward(ctx, x, weight, bias, times: Times):
        ctx.save_for_backward(x, weight)
        ctx.times = times
        if has_kernels(x):
            from icecore.models.engines import kernels

            return kernels.convolve(x, weight, bias, times.earlier)
        out = bias[:, None] + x * weight[:, None, :, KERNEL - 1]
        for lag in range(1, KERNEL):
            out.addcmul_(with_zeros(x).index_select(1, times.earlier[lag]), weight[:, None, :, KERNEL - 1 - lag])
        return out

    @staticmethod
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        by_x = Convolution.by_input(gradient, weight, ctx.times)
        if not any(ctx.needs_input_grad[1:3]):
            return by_x, None, None, None
        padded = with_zeros(x)
        lags = reversed(range(KERNEL))
        by_weight = [(gradient * padded.index_select(1, ctx.times.earlier[lag])).sum(dim=1) for lag in lags]
        return by_x, torch.stack(by_weight, dim=-1), gradient.sum(dim=1), None

    @staticmethod
    def by_input(gradient: Nodes, weight: Float[Tensor, "seed channel kernel"], times: Times) -> Nodes:
        """Return the gradient of the input: the same sum, over later tokens."""
        if has_kernels(gradient):
            from icecore.models.engines import kernels

            return kernels.convolve(gradient.contiguous(), weight, None, times.later)
        by_x = gradient * weight[:, None, :, KERNEL - 1]
        for lag in range(1, KERNEL):
            moved = with_zeros(gradient).index_select(1, times.later[lag])
            by_x.addcmul_(moved, weight[:, None, :, KERNEL - 1 - lag])
        return by_x


def with_zeros(x: Nodes) -> Float[Tensor, "seed node+1 width"]:
    """Append a row of zeros: the token before the first."""
    return F.pad(x, (0, 0, 0, 1))


class Scan(torch.autograd.Function):
    """`mamba.scanned` of tokens packed by time: state = exp(step rate) state + added written; output = state . read.

    Sequences run in tiles whose states stay in a CPU's cache. Every eighth state is kept; backward computes the others
    again.
    """

    @staticmethod
    def forward(ctx, added, step, rate, written, read, sizes: tuple[int, ...]):
        output = torch.empty_like(added)
        ctx.sizes, ctx.kept = sizes, []
        for rows in tiles(sizes, rate):
            kept, state = [], None
            for time, here in enumerate(places(sizes, rows)):
                state = begin_time(state, here, rate)
                if time % STATES_KEPT_EVERY == 0:
                    kept.append(state.clone())
                advance(state, added[:, here], step[:, here], rate, written[:, here])
                output[:, here] = (state @ read[:, here, :, None]).squeeze(-1)
            ctx.kept.append(kept)
        ctx.save_for_backward(added, step, rate, written, read)
        return output

    @staticmethod
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        added, step, rate, written, read = ctx.saved_tensors
        by_added, by_step, by_written, by_read = (torch.empty_like(each) for each in (added, step, written, read))
        by_rate = torch.zeros_like(rate)
        for rows, kept in zip(tiles(ctx.sizes, rate), ctx.kept, strict=True):
            spans = list(places(ctx.sizes, rows))
            by_state = None
            for chunk in reversed(range(len(kept))):
                own = spans[chunk * STATES_KEPT_EVERY : (chunk + 1) * STATES_KEPT_EVERY]
                states, decays = again(kept[chunk], own, added, step, rate, written)
                for here, before, after, decay in reversed(list(zip(own, states, states[1:], decays, strict=False))):
                    by_state = grown(by_state, after)
                    asked = gradient[:, here]
                    by_read[:, here] = (asked[..., None, :] @ after).squeeze(-2)
                    by_state.addcmul_(asked[..., None], read[:, here, None])
                    by_added[:, here] = (by_state @ written[:, here, :, None]).squeeze(-1)
                    by_written[:, here] = (added[:, here, None] @ by_state).squeeze(-2)
                    by_state.mul_(decay)  # now by the state before
                    by_exponent = by_state * before[:, : by_state.shape[1]]
                    by_step[:, here] = (by_exponent * rate[:, None]).sum(dim=-1)
                    if ctx.needs_input_grad[2]:
                        by_rate += (by_exponent * step[:, here, :, None]).sum(dim=1)
        return by_added, by_step, by_rate if ctx.needs_input_grad[2] else None, by_written, by_read, None


class FusedScan(torch.autograd.Function):
    """softplus, `Scan` and what skips it, by a kernel that holds the states in registers. `step` is before its bias."""

    @staticmethod
    def forward(ctx, x, step, bias, rate, skip, written, read, times: Times):
        from icecore.models.engines import kernels

        each = x, step, bias, rate, skip, written, read  # with many seeds, parameters are views of long rows
        x, step, bias, rate, skip, written, read = (value.contiguous() for value in each)
        ctx.places = times.begins, times.kept_begins, times.lengths
        kept_states = times.kept_states if any(ctx.needs_input_grad) else 0
        out, kept = kernels.scan_forward(x, step, bias, rate, skip, written, read, ctx.places, kept_states)
        ctx.save_for_backward(x, step, bias, rate, skip, written, read, kept)
        return out

    @staticmethod
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        from icecore.models.engines import kernels

        x, step, bias, rate, skip, written, read, kept = ctx.saved_tensors
        _, _, for_bias, for_rate, for_skip, *_ = ctx.needs_input_grad
        by_x, by_step, by_rate, by_written, by_read = kernels.scan_backward(
            x, step, bias, rate, skip, written, read, ctx.places, kept, gradient.contiguous(), for_rate
        )
        by_bias = by_step.sum(dim=1, dtype=torch.float32) if for_bias else None
        by_skip = (gradient.float() * x).sum(dim=1) if for_skip else None
        return by_x, by_step, by_bias, by_rate, by_skip, by_written, by_read, None


def tiles(sizes: tuple[int, ...], rate: Float[Tensor, "seed channel state"]) -> list[tuple[int, int]]:
    """Return ranges of sequences to scan together."""
    at_once = max(1, STATES_AT_ONCE[rate.device.type] // rate.numel())
    return [(begin, min(begin + at_once, sizes[0])) for begin in range(0, sizes[0], at_once)]


def places(sizes: tuple[int, ...], rows: tuple[int, int]) -> list[slice]:
    """Return where a tile's tokens of each time are; times that none of its sequences reach are left out."""
    begins = [0, *itertools.accumulate(sizes)]
    return [
        slice(begin + rows[0], begin + min(rows[1], size))
        for begin, size in zip(begins, sizes, strict=False)
        if size > rows[0]
    ]


def begin_time(state: Tensor | None, here: slice, rate: Float[Tensor, "seed channel state"]) -> Tensor:
    """Return the states of the sequences that continue, zeros at the first time."""
    count = here.stop - here.start
    if state is None:
        return rate.new_zeros(len(rate), count, *rate.shape[1:])
    return state[:, :count]


def advance(
    state: Tensor, added: Tensor, step: Tensor, rate: Float[Tensor, "seed channel state"], written: Tensor
) -> Tensor:
    """Update the state in place; return the decay."""
    decay = (step[..., None] * rate[:, None]).exp_()
    state.mul_(decay).addcmul_(added[..., None], written[..., None, :])
    return decay


def again(
    start: Tensor, spans: list[slice], added: Tensor, step: Tensor, rate: Tensor, written: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the states before, between and after these times, and the decays."""
    states, decays = [start], []
    for here in spans:
        state = begin_time(states[-1], here, rate).clone()
        decays.append(advance(state, added[:, here], step[:, here], rate, written[:, here]))
        states.append(state)
    return states, decays


def grown(gradient: Tensor | None, like: Tensor) -> Tensor:
    """Add zeros for the sequences that end here."""
    if gradient is None:
        return torch.zeros_like(like)
    missing = like.shape[1] - gradient.shape[1]
    return F.pad(gradient, (0, 0, 0, 0, 0, missing)) if missing else gradient
