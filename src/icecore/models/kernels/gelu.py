"""The gradient of gelu_new, and on the way the sum of its rows, which is the gradient of a bias before it."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

ROWS, COLUMNS = 8, 256  # of a tile
PROGRAMS = 2048  # about so many, each with several tiles below one another, so that few sums meet


@triton.jit
def gelu_backward_kernel(
    x, gradient, sums, rows,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, TURNS: tl.constexpr,
):  # fmt: skip
    seed = tl.program_id(2).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    on_width = column < WIDTH
    total = tl.zeros((COLUMNS,), tl.float32)
    for turn in range(TURNS):
        row = (tl.program_id(0) * TURNS + turn) * ROWS + tl.arange(0, ROWS)
        here = (row < rows)[:, None] & on_width[None, :]
        at = seed * rows * WIDTH + row.to(tl.int64)[:, None] * WIDTH + column[None, :]
        value = tl.load(x + at, mask=here, other=0.0).to(tl.float32)
        outer = tl.load(gradient + at, mask=here, other=0.0).to(tl.float32)
        square = value * value
        inner = 0.7978845608028654 * value * (1 + 0.044715 * square)  # sqrt(2 / pi)
        share = tl.sigmoid(2 * inner)  # (1 + tanh(inner)) / 2
        slope = 0.7978845608028654 * (1 + 3 * 0.044715 * square)
        result = outer * share * (1 + 2 * value * (1 - share) * slope)
        tl.store(gradient + at, result.to(gradient.dtype.element_ty), mask=here)
        total += tl.sum(result, axis=0)
    tl.atomic_add(sums + seed * WIDTH + column, total, mask=on_width)


def gelu_backward(
    x: Float[Tensor, "seed row width"], gradient: Float[Tensor, "seed row width"]
) -> tuple[Float[Tensor, "seed row width"], Float[Tensor, "seed width"]]:
    """The gradient of x, in place of the one of gelu(x), and its sum over rows, in float32."""
    seeds, rows, width = x.shape
    sums = torch.zeros((seeds, width), device=x.device)
    tiles, columns = triton.cdiv(rows, ROWS), triton.cdiv(width, COLUMNS)
    turns = triton.next_power_of_2(triton.cdiv(seeds * tiles * columns, PROGRAMS))
    gelu_backward_kernel[(triton.cdiv(tiles, turns), columns, seeds)](
        x, gradient, sums, rows, WIDTH=width, ROWS=ROWS, COLUMNS=COLUMNS, TURNS=turns, num_warps=4
    )
    return gradient, sums
