"""Modular multiplication and division."""

import math
import random
from dataclasses import dataclass
from typing import ClassVar, Literal

from icecore.errors import require, require_choices
from icecore.tasks.base import Coordinates
from icecore.tasks.batch import Item
from icecore.tasks.finite import PairTask

MOST = 2_048
SEED = 0  # seed of the train-test split


@dataclass(frozen=True)
class ModularMultiplication(PairTask):
    """Given tokens a, b, predict a b, or a / b, modulo a prime p.

    With p = 5:   3 4 -> 2 (12 = 2 x 5 + 2),   divided: 2 4 -> 3

    The numbers 1 to p - 1 form a cyclic group: addition modulo p - 1 with other names. All pairs are shuffled; a
    tenth are test items.
    """

    modulus: int = 97
    operation: Literal["multiply", "divide"] = "multiply"
    train_fraction: float = 0.9

    name: ClassVar[str] = "modular-multiplication"
    difficulty_setting: ClassVar = "modulus"
    difficulties: ClassVar = (23, 59, 97, 199)

    def __post_init__(self) -> None:
        require_choices(self)
        is_prime = self.modulus >= 2 and all(self.modulus % n for n in range(2, math.isqrt(abs(self.modulus)) + 1))
        require(
            3 <= self.modulus <= MOST and is_prime,
            f"modulus must be a prime from 3 to {MOST:,}, got {self.modulus}: otherwise some numbers have no inverse",
        )
        pairs = (self.modulus - 1) ** 2
        require(
            0 < self.train_fraction < 1 and 1 <= int(self.train_fraction * pairs) < pairs,
            f"train_fraction must leave items to train on and to test on: of {pairs} pairs, "
            f"{self.train_fraction} leaves none for one of them",
        )

    @property
    def vocab_size(self) -> int:
        return self.modulus

    def splits(self) -> tuple[list[Item], list[Item]]:
        numbers = range(1, self.modulus)
        items = [Item((a, b), self.solve((a, b))) for a in numbers for b in numbers]
        random.Random(SEED).shuffle(items)
        train = int(self.train_fraction * len(items))
        return items[:train], items[train:]

    def coordinates(self) -> Coordinates:
        return Coordinates(rounds=1, symbols=self.modulus - 1)

    def solve(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        first, second = prompt
        other = second if self.operation == "multiply" else pow(second, -1, self.modulus)
        return (first * other % self.modulus,)

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 / (self.modulus - 1)}
