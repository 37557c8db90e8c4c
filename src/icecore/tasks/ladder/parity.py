"""Parity of all bits."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from icecore.tasks.base import Coordinates
from icecore.tasks.batch import Batch
from icecore.tasks.drawing import below
from icecore.tasks.ladder.base import MOST, USUAL_TEST_SIZE, LadderTask, constant_column, written

ASK = 2


@dataclass(frozen=True)
class Parity(LadderTask):
    """Given bits, tell whether the number of ones is odd.

    In words:    0 1 1 0 1? -> odd
    As tokens:   0 1 1 0 1 2 -> 1       (1: odd, 0: even)

    Every bit matters: sensitivity is the length.
    """

    length: int = 16
    test_size: int = USUAL_TEST_SIZE

    name: ClassVar[str] = "parity"
    difficulty_setting: ClassVar = "length"
    difficulties: ClassVar = (4, 8, 12, 16, 24, 32)

    def __post_init__(self) -> None:
        self.require_sizes(length=(2, MOST))

    @property
    def vocab_size(self) -> int:
        return ASK + 1

    @property
    def max_length(self) -> int:
        return self.length + 1

    @property
    def item_count(self) -> int:
        return 2**self.length

    def coordinates(self) -> Coordinates:
        return Coordinates(rounds=1, symbols=2, circuit_class="TC0")

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        bits = below(2, (count, self.length), generator)
        return written(torch.cat([bits, constant_column(ASK, bits)], dim=1), bits.sum(dim=1, keepdim=True) % 2)

    def solve(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        return (sum(prompt[:-1]) % 2,)

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 / 2}
