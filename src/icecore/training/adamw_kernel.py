# pyright: reportMissingImports=false, reportIndexIssue=false, reportPossiblyUnboundVariable=false
"""One pass over all that trains: clipping, AdamW, and the copy in the type to compute with. On a GPU alone."""

import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from icecore.training.optimizer import Vectors

BLOCK = 1024


@triton.jit
def adamw_kernel(
    value, gradient, mean, square, rounded, factors, now, count, decay, new1, new2, epsilon,
    ROUNDS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(1)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = place < count
    at = seed.to(tl.int64) * count + place
    rate, correction1, correction2 = tl.load(now), tl.load(now + 1), tl.load(now + 2)
    g = tl.load(gradient + at, mask=here) * tl.load(factors + seed)
    m = tl.load(mean + at, mask=here)
    m += new1 * (g - m)
    v = tl.load(square + at, mask=here)
    v += new2 * (g * g - v)
    x = tl.load(value + at, mask=here) * (1 - rate * decay)
    x -= rate / correction1 * m / (tl.sqrt(v) / tl.sqrt(correction2) + epsilon)
    tl.store(value + at, x, mask=here)
    tl.store(mean + at, m, mask=here)
    tl.store(square + at, v, mask=here)
    if ROUNDS:
        tl.store(rounded + at, x.to(rounded.dtype.element_ty), mask=here)


def adamw(
    vectors: Vectors,
    factors: Float[Tensor, " seed"],
    now: Float[Tensor, " 3"],
    decay: float,
    betas: tuple[float, float],
    epsilon: float,
    rounded: Tensor | None,
) -> None:
    seeds, count = vectors.value.shape
    adamw_kernel[(triton.cdiv(count, BLOCK), seeds)](
        vectors.value, vectors.gradient, vectors.mean, vectors.square, vectors.value if rounded is None else rounded,
        factors, now, count, decay, 1 - betas[0], 1 - betas[1], epsilon, ROUNDS=rounded is not None, BLOCK=BLOCK,
    )  # fmt: skip
