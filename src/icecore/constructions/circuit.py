"""Weights of a `Transformer`, written by hand in named directions of the residual stream."""

import math
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float64
from torch import Tensor

from icecore.errors import require
from icecore.models import ModelDims, Transformer
from icecore.models.transformer import NORM_EPSILON
from icecore.tasks import Task

Vector = Float64[Tensor, " direction"]
Reading = Float64[Tensor, " direction+1"]  # a weight for each direction, then a constant

# Scores of positions that must not be attended to lie this far below: e^-40 is 4e-18, the rounding of float64.
GAP = 40.0


class Circuit:
    """Weights in named directions of the residual stream, for one head and the given number of layers.

    Layer norm subtracts the mean over channels, then rescales. The directions are orthonormal and have mean zero over
    channels, so n directions take a width of n + 1, and layer norm only rescales the stream to the length sqrt(width).
    Every reading names the length that the stream has before layer norm; it is exact where the stream has this length.
    """

    def __init__(self, task: Task, directions: Sequence[str], layers: int) -> None:
        self.names, self.width = tuple(directions), len(directions) + 1
        self.model = Transformer(width=self.width, layers=layers, heads=1)
        self.dims = ModelDims(task.vocab_size, task.max_length)
        self.tokens = self.zeros(self.dims.vocab_size, len(directions))
        self.positions = self.zeros(self.dims.n_positions, len(directions))
        self.unembed = self.zeros(self.dims.vocab_size, len(directions))
        specs = self.model.specs(self.dims)
        self.body = {name: self.zeros(*spec.shape) for name, spec in specs.items()}
        for name, value in self.body.items():
            if name.endswith("norm.weight"):
                value.fill_(1)
        self.neurons = dict.fromkeys(range(layers), 0)
        self.basis = zero_mean_basis(self.width)

    @staticmethod
    def zeros(*shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64)

    def vector(self, **values: float) -> Vector:
        """Return a vector with these components."""
        return torch.tensor([values.pop(name, 0.0) for name in self.names] + require_no(values), dtype=torch.float64)

    def reading(self, constant: float = 0.0, **weights: float) -> Reading:
        """Return the reading of a weighted sum of directions and a constant."""
        return torch.cat([self.vector(**weights), torch.tensor([constant], dtype=torch.float64)])

    def attend(
        self,
        block: int,
        length: float,
        scores: Sequence[tuple[Reading, Reading]],
        moves: Mapping[tuple[str, str], float],
    ) -> None:
        """Write an attention head. Its score is the sum of products of a reading at the query and one at the key.

        `moves` maps (from, to) to a factor: what the attended positions have in one direction is added to another.
        """
        require(len(scores) <= self.width, f"a head of width {self.width} has no room for {len(scores)} products")
        gain, name = self.gain(length), f"block{block}"
        for row, (query, key) in enumerate(scores):
            self.write_row(f"{name}.q", row, query, length, math.sqrt(self.width))  # undoes the softmax's scale
            self.write_row(f"{name}.k", row, key, length)
        self.body[f"{name}.v.weight"] += gain * torch.eye(self.width, dtype=torch.float64)
        moved = self.zeros(len(self.names), len(self.names))
        for (source, target), factor in moves.items():
            moved[self.names.index(target), self.names.index(source)] = factor
        self.body[f"{name}.out.weight"] += self.basis @ moved @ self.basis.T

    def neuron(self, block: int, length: float, read: Reading, write: Vector) -> None:
        """Add a hidden unit: gelu(read) times `write` is added to the residual stream."""
        row = self.neurons[block]
        require(row < 4 * self.width, f"an MLP of width {self.width} has no room for more than {row} neurons")
        self.neurons[block] += 1
        self.write_row(f"block{block}.mlp_in", row, read, length)
        self.body[f"block{block}.mlp_out.weight"][:, row] = self.basis @ write

    def write_row(self, name: str, row: int, reading: Reading, length: float, factor: float = 1.0) -> None:
        self.body[f"{name}.weight"][row] = factor * self.gain(length) * (self.basis @ reading[:-1])
        self.body[f"{name}.bias"][row] = factor * reading[-1]

    def gain(self, length: float) -> float:
        """Return the divisor of layer norm for a residual stream of this norm."""
        return math.sqrt(length**2 / self.width + NORM_EPSILON)

    def parameters(self) -> dict[str, Tensor]:
        """Return the model's parameters in float64."""
        embeddings = {"token": self.tokens, "position": self.positions, "unembed": self.unembed}
        return self.body | {name: value @ self.basis.T for name, value in embeddings.items()}


def require_no(values: Mapping[str, float]) -> list[float]:
    """Raise for directions that do not exist; return nothing to append."""
    assert not values, f"no such direction: {', '.join(values)}"
    return []


def zero_mean_basis(width: int) -> Float64[Tensor, "width direction"]:
    """Return orthonormal columns, each with mean zero (Helmert's)."""
    columns = torch.ones(width, width - 1, dtype=torch.float64).triu()
    for index in range(width - 1):
        columns[index + 1, index] = -(index + 1)
    return columns / columns.norm(dim=0)


def on_circle(index: float, count: int) -> tuple[float, float]:
    """Return the cosine and sine of one of `count` points on a circle."""
    angle = 2 * math.pi * index / count
    return math.cos(angle), math.sin(angle)


def sharpness(count: int) -> float:
    """Return the factor at which neighbours among `count` points on a circle are `GAP` apart in the score."""
    return GAP / (1 - math.cos(2 * math.pi / max(2, count)))
