"""Initializers of parameters: named distributions, or any function of a shape and a random generator."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from icecore.errors import require

Initializer = Callable[[tuple[int, ...], torch.Generator], Tensor]


@dataclass(frozen=True)
class Constant:
    value: float = 0.0

    def __call__(self, shape: tuple[int, ...], _generator: torch.Generator) -> Tensor:
        return torch.full(shape, self.value)


@dataclass(frozen=True)
class Normal:
    """Independent normal values with mean 0."""

    std: float

    def __post_init__(self) -> None:
        require_scale("std", self.std)

    def __call__(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.empty(shape).normal_(0, self.std, generator=generator)


@dataclass(frozen=True)
class Uniform:
    """Independent values between -bound and bound."""

    bound: float

    def __post_init__(self) -> None:
        require_scale("bound", self.bound)

    def __call__(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.empty(shape).uniform_(-self.bound, self.bound, generator=generator)


@dataclass(frozen=True)
class Orthogonal:
    """A uniformly distributed matrix with orthogonal rows or columns; `std` is that of its entries."""

    std: float

    def __post_init__(self) -> None:
        require_scale("std", self.std)

    def __call__(self, shape: tuple[int, ...], generator: torch.Generator) -> Float[Tensor, "row column"]:
        require_matrix(self, shape)
        return orthogonal(torch.empty(shape).normal_(generator=generator)) * self.std


@dataclass(frozen=True)
class Sinusoidal:
    """Position embeddings, the same for every seed: column 2k is sin(position / 10000^(2k / width)), 2k + 1 the cosine.

    SOURCE: Vaswani et al. 2017, section 3.5.
    """

    def __call__(self, shape: tuple[int, ...], _generator: torch.Generator) -> Float[Tensor, "position width"]:
        require_matrix(self, shape)
        return sinusoids(*shape)


@dataclass(frozen=True)
class MixingMatrix:
    """Causal mixing matrices, one per head: the identity plus normal noise, less its mean over the visible positions.

    Each row sums to 1. The noise has std 1 / sqrt(positions x head_width).
    SOURCE: MixiT (arXiv 2506.01115) and its released code.
    """

    head_width: int

    def __call__(
        self, shape: tuple[int, ...], generator: torch.Generator
    ) -> Float[Tensor, "head position_of_query position_of_key"]:
        length = shape[-1]
        noise = torch.empty(shape).normal_(0, 1 / math.sqrt(length * self.head_width), generator=generator).tril()
        mean = noise.sum(dim=-1) / torch.arange(1, length + 1)
        return (torch.eye(length) + noise - mean[..., None]).tril()


def orthogonal(normal: Float[Tensor, "row column"]) -> Float[Tensor, "row column"]:
    """Orthogonalize a matrix of independent normal values; entries keep variance 1."""
    q, r = torch.linalg.qr(normal if normal.shape[0] >= normal.shape[1] else normal.T)
    q = q * r.diagonal().sign() * math.sqrt(len(q))
    return q if q.shape == normal.shape else q.T.contiguous()


def sinusoids(positions: int, width: int) -> Float[Tensor, "position width"]:
    """Compute in float64, so that rounding to float32 gives the same bits on every processor."""
    column = torch.arange(width)
    rate = 10_000.0 ** (-(column - column % 2).double() / width)
    angle = torch.arange(positions).double()[:, None] * rate
    return torch.where(column % 2 == 0, angle.sin(), angle.cos()).float()


def require_scale(name: str, value: float) -> None:
    require(math.isfinite(value) and value >= 0, f"{name} must be a finite number of at least 0, got {value}")


def require_matrix(initializer: Initializer, shape: tuple[int, ...]) -> None:
    require(len(shape) == 2, f"{type(initializer).__name__} initializes matrices, got the shape {shape}")
