"""Multiplication of binary numbers."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from icecore.tasks.base import Coordinates
from icecore.tasks.batch import Batch
from icecore.tasks.drawing import below
from icecore.tasks.ladder.base import USUAL_TEST_SIZE, LadderTask, constant_column, written

MOST_BITS = 31  # so that a product is an integer of 64 bits
TIMES, EQUALS = 2, 3


@dataclass(frozen=True)
class Multiplication(LadderTask):
    """Given two numbers in binary, lowest bit first, write their product.

    In words, 2 bits:   3 x 2 = 6, as  1 1 x 0 1 = 0 1 1 0
    As tokens:          1 1 2 0 1 3 -> 0 1 1 0       (2: times, 3: equals)
    """

    bits: int = 4
    test_size: int = USUAL_TEST_SIZE

    name: ClassVar[str] = "multiplication"
    difficulty_setting: ClassVar = "bits"
    difficulties: ClassVar = (2, 3, 4, 5, 6, 8)

    def __post_init__(self) -> None:
        self.require_sizes(bits=(1, MOST_BITS))

    @property
    def vocab_size(self) -> int:
        return EQUALS + 1

    @property
    def max_length(self) -> int:
        return 4 * self.bits + 1

    @property
    def item_count(self) -> int:
        return 4**self.bits

    def coordinates(self) -> Coordinates:
        return Coordinates(rounds=None, symbols=2, circuit_class="TC0")

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        factors = below(2**self.bits, (count, 2), generator)
        first, second = (self.digits(factors[:, [index]], self.bits) for index in (0, 1))
        parts = [first, constant_column(TIMES, first), second, constant_column(EQUALS, first)]
        return written(torch.cat(parts, dim=1), self.digits(factors.prod(dim=1, keepdim=True), 2 * self.bits))

    @staticmethod
    def digits(number: torch.Tensor, bits: int) -> torch.Tensor:
        return number >> torch.arange(bits, device=number.device) & 1

    def solve(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        first, second = prompt[: self.bits], prompt[self.bits + 1 : -1]
        product = int("".join(map(str, first[::-1])), 2) * int("".join(map(str, second[::-1])), 2)
        return tuple(int(bit) for bit in reversed(f"{product:0{2 * self.bits}b}"))

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 / 2}
