"""Bits that a model has memorized: the paper's count, by accuracy, and by loss."""

import math
from dataclasses import asdict, dataclass

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Capacity:
    """Memorized bits, in total and per parameter."""

    accuracy_bits: float  # SOURCE: Table 3; accuracy x items x log2 answers, chance not subtracted
    loss_bits: float  # the sum over items of log2 answers - cross-entropy, at least 0 each
    trained_parameters: int
    parameters: int

    @property
    def accuracy_bits_per_trained(self) -> float:
        return self.accuracy_bits / self.trained_parameters

    @property
    def loss_bits_per_trained(self) -> float:
        return self.loss_bits / self.trained_parameters

    @property
    def accuracy_bits_per_parameter(self) -> float:
        return self.accuracy_bits / self.parameters

    @property
    def loss_bits_per_parameter(self) -> float:
        return self.loss_bits / self.parameters

    def as_json(self) -> dict[str, float]:
        """Return all numbers by name."""
        return {
            **asdict(self),
            "accuracy_bits_per_trained": self.accuracy_bits_per_trained,
            "loss_bits_per_trained": self.loss_bits_per_trained,
            "accuracy_bits_per_parameter": self.accuracy_bits_per_parameter,
            "loss_bits_per_parameter": self.loss_bits_per_parameter,
        }


def capacity(
    is_right: Float[Tensor, " item"],
    cross_entropy: Float[Tensor, " item"],
    answers: int,
    trained_parameters: int,
    parameters: int,
) -> Capacity:
    """Return the capacity, from each item's correctness (1 or 0) and cross-entropy in nats over `answers`."""
    known = (math.log2(answers) - cross_entropy.double() / math.log(2)).clamp(min=0)
    return Capacity(
        float(is_right.double().sum()) * math.log2(answers), float(known.sum()), trained_parameters, parameters
    )
