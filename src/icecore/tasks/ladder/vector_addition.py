"""Vector addition modulo p: many independent sums at once, without carries."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from icecore.tasks.base import Coordinates
from icecore.tasks.batch import Batch
from icecore.tasks.drawing import below
from icecore.tasks.ladder.base import MOST, USUAL_TEST_SIZE, LadderTask, written


@dataclass(frozen=True)
class VectorAddition(LadderTask):
    """Given two vectors of integers modulo p, write their sum, entry by entry.

    With p = 5 and 3 entries:   2 4 1 + 4 4 0 = 1 3 1
    As tokens:                  2 4 1 4 4 0 -> 1 3 1

    With one entry this is the paper's modular addition. Entries do not interact: only their number grows.
    """

    dimension: int = 2
    modulus: int = 59
    test_size: int = USUAL_TEST_SIZE

    name: ClassVar[str] = "vector-addition"
    difficulty_setting: ClassVar = "dimension"
    difficulties: ClassVar = (1, 2, 3, 4, 6, 8)

    def __post_init__(self) -> None:
        self.require_sizes(dimension=(1, MOST), modulus=(2, MOST))

    @property
    def vocab_size(self) -> int:
        return self.modulus

    @property
    def max_length(self) -> int:
        return 3 * self.dimension - 1

    @property
    def item_count(self) -> int:
        return self.modulus ** (2 * self.dimension)

    def coordinates(self) -> Coordinates:
        return Coordinates(rounds=1, symbols=self.modulus, circuit_class="AC0")

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        prompt = below(self.modulus, (count, 2 * self.dimension), generator)
        first, second = prompt.split(self.dimension, dim=1)
        return written(prompt, (first + second) % self.modulus)

    def solve(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        vectors = prompt[: self.dimension], prompt[self.dimension :]
        return tuple((a + b) % self.modulus for a, b in zip(*vectors, strict=True))

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 / self.modulus}
