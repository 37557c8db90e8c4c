"""Parity of a few of the bits."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from icecore.errors import require
from icecore.tasks.base import Coordinates
from icecore.tasks.batch import Batch
from icecore.tasks.drawing import below
from icecore.tasks.ladder.base import MOST, USUAL_TEST_SIZE, LadderTask, constant_column, written

ASK = 2


@dataclass(frozen=True)
class SparseParity(LadderTask):
    """Given bits, tell whether the number of ones at a few fixed positions is odd.

    In words, positions 0 and 3 of 6:   1 1 0 0 1 0? -> odd
    As tokens:                          1 1 0 0 1 0 2 -> 1       (1: odd, 0: even)

    The positions are evenly spread. Nothing in an item tells them; a model learns them. Sensitivity is `relevant`.
    """

    relevant: int = 3
    length: int = 20
    test_size: int = USUAL_TEST_SIZE

    name: ClassVar[str] = "sparse-parity"
    difficulty_setting: ClassVar = "relevant"
    difficulties: ClassVar = (2, 3, 4, 5)

    def __post_init__(self) -> None:
        self.require_sizes(length=(2, MOST))
        require(
            2 <= self.relevant <= self.length,
            f"relevant must be 2 to {self.length}, the length, got {self.relevant}; the parity of one bit is the bit",
        )

    @property
    def vocab_size(self) -> int:
        return ASK + 1

    @property
    def max_length(self) -> int:
        return self.length + 1

    @property
    def item_count(self) -> int:
        return 2**self.length

    @property
    def positions(self) -> list[int]:
        """Return the positions of the bits that count."""
        return [index * self.length // self.relevant for index in range(self.relevant)]

    def coordinates(self) -> Coordinates:
        return Coordinates(rounds=1, symbols=2, circuit_class="TC0" if self.relevant == self.length else "AC0")

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        bits = below(2, (count, self.length), generator)
        odd = bits[:, self.positions].sum(dim=1, keepdim=True) % 2
        return written(torch.cat([bits, constant_column(ASK, bits)], dim=1), odd)

    def solve(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        return (sum(prompt[position] for position in self.positions) % 2,)

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 / 2}
