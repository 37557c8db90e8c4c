# pyright: reportMissingImports=false, reportIndexIssue=false, reportPossiblyUnboundVariable=false
"""Cross-entropy of a row of logits and its gradient, reading the row once."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int64
from torch import Tensor

WIDEST = 2**15  # logits of a row that one program can hold


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


def cross_entropy(
    logits: Float[Tensor, "seed row vocab"],
    targets: Int64[Tensor, " row"],
    weight: Float[Tensor, " row"],
    dtype: torch.dtype,
) -> tuple[Float[Tensor, "seed row"], Float[Tensor, "seed row vocab"]]:
    """Each row's weighted loss, and its gradient by the logits in `dtype`."""
    seeds, rows, vocabulary = logits.shape
    loss = torch.empty((seeds, rows), dtype=torch.float32, device=logits.device)
    gradient = torch.empty_like(logits, dtype=dtype, memory_format=torch.contiguous_format)
    padded = triton.next_power_of_2(vocabulary)
    cross_entropy_kernel[(rows, seeds)](
        logits.contiguous(),
        targets.contiguous(),
        weight.contiguous(),
        loss,
        gradient,
        rows,
        vocabulary,
        PADDED=padded,
        num_warps=min(16, max(1, padded // 512)),
    )
    return loss, gradient
