"""Uniform integers and geometric counts as tensors, on the generator's device."""

import torch
from jaxtyping import Int32, Int64
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


SMALL_BOUND = 127


def small_below(
    bound: int | Int64[Tensor, "..."], shape: tuple[int, int], generator: torch.Generator
) -> Int32[Tensor, "rows columns"]:
    """`below` for bounds up to SMALL_BOUND, twice as fast: no probability is off by more than 2^-24."""
    if isinstance(bound, Tensor):
        bound = bound.int()
    words = random_bits((-(-shape[0] * shape[1] // 2),), generator)
    bits = words.view(torch.int32)[: shape[0] * shape[1]].view(shape)
    return (bits & 0xFFFFFF) * bound >> 24


def geometric(shape: tuple[int, ...], generator: torch.Generator) -> Int64[Tensor, "..."]:
    """Counts 1, 2, 3, ... with probabilities 1/2, 1/4, 1/8, ... (at most 63)."""
    # A fair coin's first tail: the lowest zero among 62 random bits, found as a power of two.
    bits = random_bits(shape, generator) >> 1
    lowest_zero = ~bits & (bits + 1)
    return lowest_zero.double().log2().round().long() + 1
