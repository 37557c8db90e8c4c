"""Cross-entropy of a row of logits and its gradient, in one kernel."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int64
from torch import Tensor

NARROW = 4096  # logits per row that one program holds; with more, too few programs fit to keep memory busy
BLOCK = 2048  # logits of a wide row at a time


@triton.jit
def cross_entropy_kernel(
    logits, targets, weight, loss, gradient, rows, vocabulary,
    PADDED: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(1).to(tl.int64) * rows + tl.program_id(0)
    column = tl.arange(0, PADDED)
    here = column < vocabulary
    value = tl.load(logits + at * vocabulary + column, mask=here, other=-float("inf")).to(tl.float32)
    target, share = tl.load(targets + tl.program_id(0)), tl.load(weight + tl.program_id(0))
    largest = tl.max(value, axis=0)
    exponential = tl.exp(value - largest)
    total = tl.sum(exponential, axis=0)
    of_target = tl.sum(tl.where(column == target, value, 0.0), axis=0)
    tl.store(loss + at, (tl.log(total) + largest - of_target) * share)
    result = exponential * (share / total) - tl.where(column == target, share, 0.0)
    tl.store(gradient + at * vocabulary + column, result.to(gradient.dtype.element_ty), mask=here)


@triton.jit
def wide_cross_entropy_kernel(
    logits, targets, weight, loss, gradient, rows,
    VOCABULARY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Read a wide row twice, the second time mostly from the cache."""
    at = tl.program_id(1).to(tl.int64) * rows + tl.program_id(0)
    logits += at * VOCABULARY
    gradient += at * VOCABULARY
    target, share = tl.load(targets + tl.program_id(0)), tl.load(weight + tl.program_id(0))
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)  # sums of exponentials, in units of exp(largest): one per lane
    for begin in range(0, VOCABULARY, BLOCK):
        column = begin + tl.arange(0, BLOCK)
        value = tl.load(logits + column, mask=column < VOCABULARY, other=-float("inf")).to(tl.float32)
        before, largest = largest, tl.maximum(largest, value)
        unit = tl.where(largest == -float("inf"), 0.0, largest)  # a lane that has no value yet
        total = total * tl.exp(before - unit) + tl.exp(value - unit)
    most = tl.max(largest, axis=0)
    log_total = tl.log(tl.sum(total * tl.exp(largest - most), axis=0)) + most
    tl.store(loss + at, (log_total - tl.load(logits + target).to(tl.float32)) * share)
    for begin in range(0, VOCABULARY, BLOCK):
        column = begin + tl.arange(0, BLOCK)
        value = tl.load(logits + column, mask=column < VOCABULARY, other=-float("inf")).to(tl.float32)
        result = (tl.exp(value - log_total) - tl.where(column == target, 1.0, 0.0)) * share
        tl.store(gradient + column, result.to(gradient.dtype.element_ty), mask=column < VOCABULARY)


def cross_entropy(
    logits: Float[Tensor, "seed row vocab"],
    targets: Int64[Tensor, " row"],
    weight: Float[Tensor, " row"],
    dtype: torch.dtype,
) -> tuple[Float[Tensor, "seed row"], Float[Tensor, "seed row vocab"]]:
    """Return each row's weighted loss, and its gradient with respect to the logits in `dtype`."""
    seeds, rows, vocabulary = logits.shape
    loss = torch.empty((seeds, rows), dtype=torch.float32, device=logits.device)
    gradient = torch.empty_like(logits, dtype=dtype, memory_format=torch.contiguous_format)
    tensors = logits.contiguous(), targets.contiguous(), weight.contiguous(), loss, gradient
    if vocabulary <= NARROW:
        padded = triton.next_power_of_2(vocabulary)
        warps = max(1, padded // 512)
        cross_entropy_kernel[(rows, seeds)](*tensors, rows, vocabulary, PADDED=padded, num_warps=warps)
    else:
        wide_cross_entropy_kernel[(rows, seeds)](*tensors, rows, VOCABULARY=vocabulary, BLOCK=BLOCK, num_warps=16)
    return loss, gradient
