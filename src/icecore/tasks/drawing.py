"""Uniform integers and geometric counts as tensors, on the generator's device."""

import torch
from jaxtyping import Int32, Int64, Integer
from torch import Tensor


def random_bits(shape: tuple[int, ...], generator: torch.Generator) -> Int64[Tensor, "..."]:
    """Draw uniform 63-bit integers."""
    return torch.empty(shape, dtype=torch.int64, device=generator.device).random_(generator=generator)


def below(
    bound: int | Int64[Tensor, "..."], shape: tuple[int, ...], generator: torch.Generator
) -> Int64[Tensor, "..."]:
    """Draw uniform integers in 0..bound-1; `bound` may differ per element.

    Multiply and shift: no probability is off by more than 2^-31.
    """
    return scale_down(random_bits(shape, generator) >> 32, bound)


def scale_down(bits: Int64[Tensor, "..."], bound: int | Int64[Tensor, "..."]) -> Int64[Tensor, "..."]:
    """Map uniform 31-bit integers to uniform integers in 0..bound-1."""
    return bits * bound >> 31


def half_words(shape: tuple[int, ...], generator: torch.Generator) -> Int32[Tensor, "..."]:
    """Draw integers whose lowest 31 bits are uniform, two per random word; the last axis must be even."""
    return random_bits((*shape[:-1], shape[-1] // 2), generator).view(torch.int32)


def scale_half_words(bits: Int32[Tensor, "..."], bound: int) -> Integer[Tensor, "..."]:
    """Map half words to uniform integers in 0..bound-1: no probability is off by more than 2^-24."""
    if bound < 128:  # 32 bits suffice and multiply faster
        return (bits & 0xFFFFFF) * bound >> 24
    return scale_down(bits.long() & 0x7FFFFFFF, bound)


def geometric(shape: tuple[int, ...], generator: torch.Generator) -> Int64[Tensor, "..."]:
    """Draw counts 1, 2, 3, ... with probabilities 1/2, 1/4, 1/8, ... (at most 63)."""
    # A fair coin's first tail is the lowest zero among 62 random bits: a power of two, whose exponent is
    # in the leading bits of a floating-point number.
    bits = random_bits(shape, generator) >> 1
    return ((~bits & (bits + 1)).double().view(torch.int64) >> 52) - 1022


def largest_first(counts: Int64[Tensor, " rows"]) -> tuple[Int64[Tensor, " rows"], list[int]]:
    """Return the rows' order by decreasing count, and how many counts exceed 0, 1, and so on.

    In this order, step k of a loop works on the first rows only, without a mask.
    """
    order = (-counts).sort(stable=True).indices
    return order, (len(counts) - counts.bincount().cumsum(0)).tolist()[:-1]


def distinct_below(bound: int, shape: tuple[int, int], generator: torch.Generator) -> Int64[Tensor, "rows picks"]:
    """Draw rows of different integers in 0..bound-1, in random order."""
    return random_bits((shape[0], bound), generator).argsort(dim=1)[:, : shape[1]]
