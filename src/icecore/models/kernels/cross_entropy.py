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
    logits, targets, weight, loss, gradient, vocabulary,
    PADDED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, PADDED)
    here = column < vocabulary
    value = tl.load(logits + row * vocabulary + column, mask=here, other=-float("inf")).to(tl.float32)
    target, share = tl.load(targets + row), tl.load(weight + row)
    largest = tl.max(value, axis=0)
    exponential = tl.exp(value - largest)
    total = tl.sum(exponential, axis=0)
    of_target = tl.sum(tl.where(column == target, value, 0.0), axis=0)
    tl.store(loss + row, (tl.log(total) + largest - of_target) * share)
    result = (exponential / total - tl.where(column == target, 1.0, 0.0)) * share
    tl.store(gradient + row * vocabulary + column, result.to(gradient.dtype.element_ty), mask=here)


def cross_entropy(
    logits: Float[Tensor, "row vocab"],
    targets: Int64[Tensor, " row"],
    weight: Float[Tensor, " row"],
    dtype: torch.dtype,
) -> tuple[Float[Tensor, " row"], Float[Tensor, "row vocab"]]:
    """Each row's weighted loss, and its gradient by the logits in `dtype`."""
    rows, vocabulary = logits.shape
    loss, gradient = torch.empty_like(weight), torch.empty_like(logits, dtype=dtype)
    padded = triton.next_power_of_2(vocabulary)
    warps = min(16, max(1, padded // 1024))
    cross_entropy_kernel[(rows,)](logits, targets, weight, loss, gradient, vocabulary, PADDED=padded, num_warps=warps)
    return loss, gradient
