"""Mamba's engine: tokens packed by time, so that nothing is padded, and a scan that keeps few states. Exact.

Without learned positions the first block's norm and first map run on the vocabulary. In the last block the gate and
the last map run on scored positions only. Tensors are (seed, token, channel), by time (`lstm.TimeMajorTokens`).
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.models.engines.base import Batches, Engine, ModelBatch
from icecore.models.engines.blocks import GatedProduct, Weights
from icecore.models.engines.fused import Nodes
from icecore.models.engines.layers import select
from icecore.models.engines.lstm import TimeMajorBatches, TimeMajorTokens
from icecore.models.engines.shape_buckets import ShapeBuckets
from icecore.models.mamba import KERNEL, NORM_EPSILON, Mamba

STATES_KEPT_EVERY = 8  # times; backward computes those between again
STATES_AT_ONCE = {"cpu": 2**18, "cuda": 2**40}  # numbers of a state that fit a CPU's cache


@dataclass(frozen=True)
class Times:
    """Positions of each sequence's tokens among tokens packed by time."""

    sizes: tuple[int, ...]
    column: Int64[Tensor, " token"]
    earlier: tuple[Int64[Tensor, " token"], ...]  # 0, 1, ... tokens earlier, one past the end if there is none
    later: tuple[Int64[Tensor, " token"], ...]

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

        lags = range(KERNEL)
        return Times(
            tuple(sizes), column.to(device), tuple(map(moved, (-lag for lag in lags))), tuple(map(moved, lags))
        )


@dataclass(frozen=True)
class MambaTokens:
    """The tokens of one step, with their places: a captured step reads both, so both live as long as its graph."""

    packed: TimeMajorTokens
    times: Times

    @property
    def weight(self) -> Float[Tensor, " query"]:
        return self.packed.weight

    def read(self) -> list[Tensor]:
        """Return the tensors that change from step to step."""
        return self.packed.read()

    def fixed(self) -> "MambaTokens":
        """Clone into static buffers for CUDA-graph capture; steps of one size have the same places."""
        return MambaTokens(self.packed.fixed(), self.times)

    def size(self) -> tuple[object, ...]:
        """Return a key: steps with equal keys replay the same graph."""
        return self.packed.size()


class MambaBatches:
    """Steps packed by time; with buckets, all have one size and share their places."""

    def __init__(self, batches: Batches, buckets: ShapeBuckets | None) -> None:
        self.by_time = TimeMajorBatches(batches, buckets)
        packed = self.by_time.packed
        self.times = None if packed is None else Times.of(packed[0].batch_sizes, batches.tokens.device)

    def __len__(self) -> int:
        return len(self.by_time)

    def step(self, index: int) -> ModelBatch:
        batch = self.by_time.step(index)
        packed: TimeMajorTokens = batch.inputs
        times = self.times or Times.of(packed.batch_sizes, packed.tokens.device)
        return ModelBatch(MambaTokens(packed, times), batch.targets)


class MambaEngine(Engine[Mamba]):
    precisions: ClassVar[tuple[str, ...]] = ("fp32", "tf32", "bf16")
    capturable: ClassVar[bool] = True
    unembedding: ClassVar[str | None] = "unembed"

    def __init__(self, model: Mamba, parameters: Mapping[str, Tensor], dtype: torch.dtype) -> None:
        super().__init__(model, parameters, dtype)
        self.weights = Weights(parameters, dtype)

    @classmethod
    def prepare(cls, batches: Batches, buckets: ShapeBuckets | None = None) -> MambaBatches:
        return MambaBatches(batches, buckets)

    @classmethod
    def computes_rounded(cls, name: str, /) -> bool:
        return name.endswith((".in.weight", ".select.weight", ".step.weight", ".out.weight"))

    def reload(self) -> None:
        self.weights.frozen.clear()

    def logits(self, inputs: MambaTokens) -> Float[Tensor, "seed query vocab"]:
        unembed = self.parameters["unembed"]
        return self.hidden(inputs).to(unembed.dtype) @ unembed.transpose(1, 2)

    def hidden(self, inputs: MambaTokens) -> Float[Tensor, "seed query width"]:
        parameters, weights, dtype, times = self.parameters, self.weights, self.dtype, inputs.times
        token, tokens, scored = parameters["token"], inputs.packed.tokens.int(), inputs.packed.scored.int()
        stream = select(token, tokens).to(dtype)
        if "position" in parameters:
            stream = stream + select(parameters["position"], times.column.int()).to(dtype)
        has_rows = "position" not in parameters and token.shape[1] < len(tokens)
        for layer in range(self.model.layers):
            block, is_last = f"block{layer}", layer == self.model.layers - 1
            rows = layer == 0 and has_rows
            x = weights.norm(token if rows else stream, f"{block}.norm", dtype, NORM_EPSILON)
            both = weights.linear(x, block, "in")[0]
            both = select(both, tokens) if rows else both
            entering, gate = both.chunk(2, dim=-1)
            mixed = self.scan(block, entering, times)
            if is_last:
                mixed, gate, stream = (select(each.contiguous(), scored) for each in (mixed, gate, stream))
            stream = stream + weights.linear(GatedProduct.apply(gate, mixed), block, "out")[0]
        return weights.norm(stream, "final_norm", parameters["unembed"].dtype, NORM_EPSILON)

    def scan(self, block: str, entering: Nodes, times: Times) -> Nodes:
        """Return the output of convolution and state space, before the gate."""
        parameters, model, linear = self.parameters, self.model, self.weights.linear
        kernel, bias = (parameters[f"{block}.convolution.{kind}"] for kind in ("weight", "bias"))
        x = F.silu(Convolution.apply(entering, kernel.to(self.dtype), bias.to(self.dtype), times))
        step, written, read = linear(x, block, "select")[0].split([model.rank, model.state, model.state], dim=-1)
        bias = parameters[f"{block}.step.bias"]
        step = F.softplus(linear(step, block, "step")[0].to(bias.dtype) + bias[:, None])
        rate = -parameters[f"{block}.log_decay"].exp()
        wide = rate.dtype
        output = Scan.apply(step * x, step, rate, written.to(wide), read.to(wide), times.sizes)
        return (output + parameters[f"{block}.skip"][:, None] * x).to(self.dtype)


class Convolution(torch.autograd.Function):
    """`mamba.convolved` of tokens packed by time. A token has at most one successor, so backward gathers too."""

    @staticmethod
    def forward(ctx, x, weight, bias, times: Times):
        ctx.save_for_backward(x, weight)
        ctx.times = times
        out = bias[:, None] + x * weight[:, None, :, KERNEL - 1]
        for lag in range(1, KERNEL):
            out.addcmul_(with_zeros(x).index_select(1, times.earlier[lag]), weight[:, None, :, KERNEL - 1 - lag])
        return out

    @staticmethod
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        by_x = gradient * weight[:, None, :, KERNEL - 1]
        for lag in range(1, KERNEL):
            moved = with_zeros(gradient).index_select(1, ctx.times.later[lag])
            by_x.addcmul_(moved, weight[:, None, :, KERNEL - 1 - lag])
        if not any(ctx.needs_input_grad[1:3]):
            return by_x, None, None, None
        padded = with_zeros(x)
        lags = reversed(range(KERNEL))
        by_weight = [(gradient * padded.index_select(1, ctx.times.earlier[lag])).sum(dim=1) for lag in lags]
        return by_x, torch.stack(by_weight, dim=-1), gradient.sum(dim=1), None


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
    """Return the states of the sequences that go on, zeros at the first time."""
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
