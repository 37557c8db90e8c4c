"""Cross-entropy from what the unembedding reads, chunk by chunk: the logits of a batch are never there all at once.

A chunk's logits give its losses and, at once, its part of the gradients; then they are forgotten.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

LOGITS_AT_ONCE = 2**25


class ChunkedCrossEntropy(torch.autograd.Function):
    """Each seed's weighted sum of losses."""

    @staticmethod
    def forward(ctx, hidden, unembed, targets, weight):
        rows_at_once = max(1, LOGITS_AT_ONCE // unembed.shape[1])
        needs_hidden, needs_unembed = ctx.needs_input_grad[:2]
        d_hidden = torch.empty_like(hidden) if needs_hidden else None
        d_unembed = torch.zeros_like(unembed) if needs_unembed else None
        losses = torch.zeros(len(hidden), dtype=unembed.dtype, device=hidden.device)
        for seed in range(len(hidden)):
            matrix = unembed[seed].to(hidden.dtype)
            for begin in range(0, hidden.shape[1], rows_at_once):
                part = slice(begin, begin + rows_at_once)
                rows = hidden[seed, part]
                logits = exact_product(rows, matrix.T, unembed.dtype)
                loss, d_logits = loss_and_gradient(logits, targets[part], weight[part], hidden.dtype)
                losses[seed] += loss.sum()
                if d_hidden is not None:
                    torch.mm(d_logits, matrix, out=d_hidden[seed, part])
                if d_unembed is not None:
                    d_unembed[seed] += exact_product(d_logits.T, rows, unembed.dtype)
        ctx.save_for_backward(d_hidden, d_unembed)
        return losses

    @staticmethod
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        d_hidden, d_unembed = ctx.saved_tensors
        by_seed = gradient[:, None, None]
        return (
            None if d_hidden is None else (d_hidden * by_seed).to(d_hidden.dtype),
            None if d_unembed is None else d_unembed * by_seed,
            None,
            None,
        )


def chunked_cross_entropy(
    hidden: Float[Tensor, "seed token width"],
    unembed: Float[Tensor, "seed vocab width"],
    targets: Int64[Tensor, " token"],
    weight: Float[Tensor, " token"],
) -> Float[Tensor, " seed"]:
    """Each seed's weighted mean of losses; `hidden` is in the type to compute with."""
    return ChunkedCrossEntropy.apply(hidden, unembed, targets, weight) / weight.sum()


def exact_product(a: Float[Tensor, "row inner"], b: Float[Tensor, "inner column"], dtype: torch.dtype) -> Tensor:
    """a @ b, not rounded to their type but in `dtype`, which its sums have anyway."""
    if a.dtype == dtype:
        return a @ b
    return torch.mm(a, b, out_dtype=dtype)


def loss_and_gradient(
    logits: Float[Tensor, "row vocab"],
    targets: Int64[Tensor, " row"],
    weight: Float[Tensor, " row"],
    dtype: torch.dtype,
) -> tuple[Float[Tensor, " row"], Float[Tensor, "row vocab"]]:
    """Each row's weighted cross-entropy, and its gradient by the logits in `dtype`."""
    if logits.device.type == "cuda" and logits.dtype == torch.float32:
        from icecore.models import kernels

        if logits.shape[1] <= kernels.WIDEST:
            return kernels.cross_entropy(logits, targets, weight, dtype)
    log_probabilities = logits.log_softmax(dim=-1)
    loss = F.nll_loss(log_probabilities, targets, reduction="none") * weight
    gradient = log_probabilities.exp_()
    gradient[torch.arange(len(targets), device=targets.device), targets] -= 1
    return loss, (gradient * weight[:, None]).to(dtype)
