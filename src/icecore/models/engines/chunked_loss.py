"""Cross-entropy from the unembedding's input, chunk by chunk: a large batch's logits never exist all at once.

A chunk's logits give its losses and its share of the gradients, and are freed.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.models.engines.devices import has_kernels

LOGITS_AT_ONCE = {"cpu": 2**24, "cuda": 2**27}  # 800 MB with their gradient in bfloat16


class Chunked(NamedTuple):
    loss: Float[Tensor, " seed"]  # each seed's weighted sum
    by_hidden: Float[Tensor, "seed token width"] | None  # the gradient with respect to `hidden`
    by_unembed: Float[Tensor, "seed vocab width"] | None


@torch.no_grad()
def chunked_cross_entropy(
    hidden: Float[Tensor, "seed token width"],
    unembed: Float[Tensor, "seed vocab width"],
    targets: Int64[Tensor, " token"],
    weight: Float[Tensor, " token"],
    rounded: Float[Tensor, "seed vocab width"] | None = None,
) -> Chunked:
    """Return losses and the gradients of inputs that require one.

    `hidden` is in the type to compute in; `rounded` is the unembedding in that type, if available.
    """
    matrix = unembed.to(hidden.dtype) if rounded is None else rounded
    losses, by_hidden, by_unembed = [], [], None
    most = LOGITS_AT_ONCE[hidden.device.type] // (len(unembed) * unembed.shape[1])
    for part in equal_parts(hidden.shape[1], most):
        rows = hidden[:, part]
        logits = product(rows, matrix.transpose(1, 2), unembed.dtype)
        loss, d_logits = loss_and_gradient(logits, targets[part], weight[part], hidden.dtype)
        losses.append(loss.sum(dim=1))
        if hidden.requires_grad:
            by_hidden.append(product(d_logits, matrix, hidden.dtype))
        if unembed.requires_grad:
            of_part = product(d_logits.transpose(1, 2), rows, unembed.dtype)
            by_unembed = of_part if by_unembed is None else by_unembed.add_(of_part)
    return Chunked(
        losses[0] if len(losses) == 1 else torch.stack(losses).sum(dim=0),
        None if not by_hidden else by_hidden[0] if len(by_hidden) == 1 else torch.cat(by_hidden, dim=1),
        by_unembed,
    )


def equal_parts(rows: int, most: int) -> Iterator[slice]:
    """Split rows into the fewest parts of at most `most` rows (at least one), as equal as possible."""
    count = math.ceil(rows / max(1, most))
    size = math.ceil(rows / count)
    return (slice(begin, begin + size) for begin in range(0, rows, size))


def product(
    a: Float[Tensor, "seed row inner"], b: Float[Tensor, "seed inner column"], dtype: torch.dtype
) -> Float[Tensor, "seed row column"]:
    """Return a @ b in `dtype`, the accumulator's type, without rounding to the inputs' type."""
    more: dict[str, Any] = {} if a.dtype == dtype else {"out_dtype": dtype}
    if len(a) == 1:  # mm is faster than bmm
        return torch.mm(a.squeeze(0), b.squeeze(0), **more).unsqueeze(0)
    return torch.bmm(a, b, **more)


def loss_and_gradient(
    logits: Float[Tensor, "seed row vocab"],
    targets: Int64[Tensor, " row"],
    weight: Float[Tensor, " row"],
    dtype: torch.dtype,
) -> tuple[Float[Tensor, "seed row"], Float[Tensor, "seed row vocab"]]:
    """Return each row's weighted cross-entropy, and its gradient with respect to the logits in `dtype`."""
    if has_kernels(logits) and logits.dtype == torch.float32:
        from icecore.models.engines import kernels

        return kernels.cross_entropy(logits, targets, weight, dtype)
    log_probabilities = logits.log_softmax(dim=-1)
    of_target = targets.expand(logits.shape[:2]).unsqueeze(-1)
    loss = -log_probabilities.gather(-1, of_target).squeeze(-1) * weight
    gradient = log_probabilities.exp_()
    gradient.scatter_add_(-1, of_target, gradient.new_full((1, 1, 1), -1.0).expand(of_target.shape))
    return loss, gradient.mul_(weight[:, None]).to(dtype)
