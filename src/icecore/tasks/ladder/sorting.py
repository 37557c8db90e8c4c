"""Sorting."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from icecore.tasks.base import Coordinates
from icecore.tasks.batch import Batch
from icecore.tasks.drawing import below
from icecore.tasks.ladder.base import MOST, USUAL_TEST_SIZE, LadderTask, constant_column, written


@dataclass(frozen=True)
class Sorting(LadderTask):
    """Given values, write them in ascending order.

    In words, values 0 to 9:   7 2 9 2 -> 2 2 7 9
    As tokens, 10 values:      7 2 9 2 10 -> 2 2 7 9      (10: write)
    """

    values: int = 10
    length: int = 16
    test_size: int = USUAL_TEST_SIZE

    name: ClassVar[str] = "sorting"
    difficulty_setting: ClassVar = "values"
    difficulties: ClassVar = (5, 10, 16, 32, 64)

    def __post_init__(self) -> None:
        self.require_sizes(values=(2, MOST), length=(2, MOST))

    @property
    def vocab_size(self) -> int:
        return self.values + 1

    @property
    def max_length(self) -> int:
        return 2 * self.length

    @property
    def item_count(self) -> int:
        return self.values**self.length

    def coordinates(self) -> Coordinates:
        return Coordinates(rounds=1, symbols=self.values, circuit_class="TC0")

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        values = below(self.values, (count, self.length), generator)
        prompt = torch.cat([values, constant_column(self.values, values)], dim=1)
        return written(prompt, values.sort(dim=1).values)

    def solve(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(prompt[:-1]))

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 / self.values}
