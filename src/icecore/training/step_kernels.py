"""Triton kernels for the end of a step, after its gradients; their references are in `optimizer` and `steps`."""

import triton
import triton.language as tl
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.training.optimizer import Vectors

BLOCK = 1024


@triton.jit
def adamw_kernel(
    value, gradient, mean, square, rounded, norms, step, schedule, seeds, count, largest, decay, new1, new2, epsilon,
    VECTORS: tl.constexpr, ROUNDS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(1)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = place < count
    at = seed.to(tl.int64) * count + place
    now = schedule + 3 * tl.load(step)
    rate, correction1, correction2 = tl.load(now), tl.load(now + 1), tl.load(now + 2)
    squares = 0.0
    for vector in tl.static_range(VECTORS):
        norm = tl.load(norms + vector * seeds + seed)
        squares += norm * norm
    factor = largest / (tl.sqrt(squares) + 1e-6)
    factor = tl.where(factor > 1.0, 1.0, factor)  # a minimum would lose NaN
    g = tl.load(gradient + at, mask=here) * factor
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
    norms: Float[Tensor, "vector seed"],
    step: Int64[Tensor, ""],
    schedule: Float[Tensor, "step 3"],
    largest: float,
    decay: float,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """Clip, apply AdamW and write the copy in the compute dtype, in one pass."""
    seeds, count = vectors.value.shape
    rounds = vectors.rounded is not None
    adamw_kernel[(triton.cdiv(count, BLOCK), seeds)](
        vectors.value, vectors.gradient, vectors.mean, vectors.square, vectors.rounded if rounds else vectors.value,
        norms, step, schedule, seeds, count, largest, decay, 1 - betas[0], 1 - betas[1], epsilon,
        VECTORS=len(norms), ROUNDS=rounds, BLOCK=BLOCK,
    )  # fmt: skip


@triton.jit
def end_step_kernel(step, loss, first_bad_step, seeds, NEVER: tl.constexpr, PADDED: tl.constexpr):
    seed = tl.arange(0, PADDED)
    here = seed < seeds
    now = tl.load(step)
    before = tl.load(first_bad_step + seed, mask=here, other=0)
    is_finite = tl.abs(tl.load(loss + seed, mask=here, other=0.0)) < float("inf")
    tl.store(first_bad_step + seed, tl.where(is_finite | (before != NEVER), before, now), mask=here)
    tl.store(step, now + 1)


def end_step(
    step: Int64[Tensor, ""], loss: Float[Tensor, " seed"], first_bad_step: Int64[Tensor, " seed"], never: int
) -> None:
    """Record the step for seeds whose loss is not finite for the first time, then increment it."""
    (seeds,) = loss.shape
    # One warp, so that the step is read before it is written.
    end_step_kernel[(1,)](
        step, loss, first_bad_step, seeds, NEVER=never, PADDED=triton.next_power_of_2(seeds), num_warps=1
    )
