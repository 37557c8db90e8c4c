"""Cross-entropy from what the unembedding reads, chunk by chunk: a large batch's logits are never there all at once.

A chunk's logits give its losses and, at once, its part of the gradients; then they are forgotten.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

LOGITS_AT_ONCE = {"cpu": 2**24, "cuda": 2**27}  # 800 MB with their gradient in bfloat16


class ChunkedCrossEntropy(torch.autograd.Function):
    """Each seed's weighted sum of losses."""

    @staticmethod
    def forward(ctx, hidden, unembed, targets, weight):
        for_hidden, for_unembed = ctx.needs_input_grad[:2]
        matrix = unembed.to(hidden.dtype)
        losses, d_hidden, d_unembed = unembed.new_zeros(len(hidden)), [], None
        most = LOGITS_AT_ONCE[hidden.device.type] // (len(unembed) * unembed.shape[1])
        for part in equal_parts(hidden.shape[1], most):
            rows = hidden[:, part]
            logits = product(rows, matrix.transpose(1, 2), unembed.dtype)
            loss, d_logits = loss_and_gradient(logits, targets[part], weight[part], hidden.dtype)
            losses += loss.sum(dim=1)
            if for_hidden:
                d_hidden.append(product(d_logits, matrix, hidden.dtype))
            if for_unembed:
                of_part = product(d_logits.transpose(1, 2), rows, unembed.dtype)
                d_unembed = of_part if d_unembed is None else d_unembed.add_(of_part)
        whole = None if not for_hidden else d_hidden[0] if len(d_hidden) == 1 else torch.cat(d_hidden, dim=1)
        ctx.save_for_backward(whole, d_unembed)
        return losses

    @staticmethod
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        by_seed = gradient[:, None, None]
        # `out` rounds in the same pass.
        each = (
            None if found is None else torch.mul(found, by_seed, out=torch.empty_like(found))
            for found in ctx.saved_tensors
        )
        return *each, None, None


def equal_parts(rows: int, most: int) -> Iterator[slice]:
    """As few parts as can be of at most so many rows, or of one, and no small one at the end."""
    count = math.ceil(rows / max(1, most))
    size = math.ceil(rows / count)
    return (slice(begin, begin + size) for begin in range(0, rows, size))


def chunked_cross_entropy(
    hidden: Float[Tensor, "seed token width"],
    unembed: Float[Tensor, "seed vocab width"],
    targets: Int64[Tensor, " token"],
    weight: Float[Tensor, " token"],
) -> Float[Tensor, " seed"]:
    """Each seed's weighted mean of losses; `hidden` is in the type to compute with."""
    return ChunkedCrossEntropy.apply(hidden, unembed, targets, weight) / weight.sum()


def product(
    a: Float[Tensor, "seed row inner"], b: Float[Tensor, "seed inner column"], dtype: torch.dtype
) -> Float[Tensor, "seed row column"]:
    """a @ b, not rounded to their type but in `dtype`, which its sums have anyway."""
    more: dict[str, Any] = {} if a.dtype == dtype else {"out_dtype": dtype}
    if len(a) == 1:  # the library's products of two matrices are better than those of many
        return torch.mm(a.squeeze(0), b.squeeze(0), **more).unsqueeze(0)
    return torch.bmm(a, b, **more)


def loss_and_gradient(
    logits: Float[Tensor, "seed row vocab"],
    targets: Int64[Tensor, " row"],
    weight: Float[Tensor, " row"],
    dtype: torch.dtype,
) -> tuple[Float[Tensor, "seed row"], Float[Tensor, "seed row vocab"]]:
    """Each row's weighted cross-entropy, and its gradient by the logits in `dtype`."""
    if logits.device.type == "cuda" and logits.dtype == torch.float32:
        from icecore.models import kernels

        return kernels.cross_entropy(logits, targets, weight, dtype)
    log_probabilities = logits.log_softmax(dim=-1)
    of_target = targets.expand(logits.shape[:2]).unsqueeze(-1)
    loss = -log_probabilities.gather(-1, of_target).squeeze(-1) * weight
    gradient = log_probabilities.exp_()
    gradient.scatter_add_(-1, of_target, gradient.new_full((1, 1, 1), -1.0).expand(of_target.shape))
    return loss, gradient.mul_(weight[:, None]).to(dtype)
