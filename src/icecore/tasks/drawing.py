"""Uniform integers and geometric counts as tensors, on the generator's device."""

import torch
from jaxtyping import Int32, Int64, Integer
from torch import Tensor


def random_bits(shape: tuple[int, ...], generator: torch.Generator) -> Int64[Tensor, "..."]:
    """Uniform integers of 63 bits."""
    return torch.empty(shape, dtype=torch.int64, device=generator.device).random_(generator=generator)


def below(
    bound: int | Int64[Tensor, "..."], shape: tuple[int, ...], generator: torch.Generator
) -> Int64[Tensor, "..."]:
    """Uniform integers in 0..bound-1; `bound` may differ from place to place.

    Multiply and shift: no value's probability is off by more than 2^-31.
    """
    return scale_down(random_bits(shape, generator) >> 32, bound)


def scale_down(bits: Int64[Tensor, "..."], bound: int | Int64[Tensor, "..."]) -> Int64[Tensor, "..."]:
    """Uniform integers of 31 bits to uniform integers in 0..bound-1."""
    return bits * bound >> 31


def half_words(shape: tuple[int, ...], generator: torch.Generator) -> Int32[Tensor, "..."]:
    """Integers of which the lowest 31 bits are uniform, two from each random word; the last axis is even."""
    return random_bits((*shape[:-1], shape[-1] // 2), generator).view(torch.int32)


def scale_half_words(bits: Int32[Tensor, "..."], bound: int) -> Integer[Tensor, "..."]:
    """Half words to uniform integers in 0..bound-1: no probability is off by more than 2^-24."""
    if bound < 128:  # 32 bits suffice, and their products are faster
        return (bits & 0xFFFFFF) * bound >> 24
    return scale_down(bits.long() & 0x7FFFFFFF, bound)


def geometric(shape: tuple[int, ...], generator: torch.Generator) -> Int64[Tensor, "..."]:
    """Counts 1, 2, 3, ... with probabilities 1/2, 1/4, 1/8, ... (at most 63)."""
    # A fair coin's first tail: the lowest zero among 62 random bits, a power of two, whose exponent is
    # in the first bits of a floating-point number.
    bits = random_bits(shape, generator) >> 1
    return ((~bits & (bits + 1)).double().view(torch.int64) >> 52) - 1022


def largest_first(counts: Int64[Tensor, " rows"]) -> tuple[Int64[Tensor, " rows"], list[int]]:
    """The rows' order by falling counts, and of how many rows the count is over 0, over 1, and so on.

    What is to be done `counts` times is done to as many of the first rows, without a mask.
    """
    order = (-counts).sort(stable=True).indices
    return order, (len(counts) - counts.bincount().cumsum(0)).tolist()[:-1]
