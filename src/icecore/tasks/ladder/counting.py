"""Counting: how often a symbol has occurred."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from icecore.errors import require
from icecore.tasks.base import Coordinates
from icecore.tasks.batch import Batch
from icecore.tasks.drawing import below, distinct_below
from icecore.tasks.ladder.base import MOST, USUAL_TEST_SIZE, LadderTask, written


@dataclass(frozen=True)
class Counting(LadderTask):
    """Given symbols, tell how often the last one has occurred before.

    In words, symbols 0 to 4:   3 1 3 0 3 2 1? -> once,   3? -> three times
    As tokens, 5 symbols:       3 1 3 0 3 2 3 -> 7        (4 + 3: count c is token 4 + c)

    The count is uniform from 1 to a quarter of the length; the other symbols are uniform. SOURCE: arXiv 2407.15160,
    where accuracy drops once the symbols exceed the width.
    """

    symbols: int = 16
    length: int = 64
    test_size: int = USUAL_TEST_SIZE

    name: ClassVar[str] = "counting"
    difficulty_setting: ClassVar = "symbols"
    difficulties: ClassVar = (16, 32, 64, 128, 256)

    def __post_init__(self) -> None:
        require(self.symbols >= 2, f"symbols must be at least 2, got {self.symbols}: one symbol fills every position")
        self.require_sizes(symbols=(2, MOST), length=(8, MOST))

    @property
    def most(self) -> int:
        """Return the highest count."""
        return self.length // 4

    @property
    def vocab_size(self) -> int:
        return self.symbols + self.most

    @property
    def max_length(self) -> int:
        return self.length + 1

    @property
    def item_count(self) -> int:
        return self.symbols**self.length

    def coordinates(self) -> Coordinates:
        return Coordinates(rounds=1, symbols=self.symbols, circuit_class="TC0")

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        asked = below(self.symbols, (count, 1), generator)
        others = (asked + 1 + below(self.symbols - 1, (count, self.length), generator)) % self.symbols
        times = 1 + below(self.most, (count, 1), generator)
        is_asked = distinct_below(self.length, (count, self.length), generator) < times
        prompt = torch.cat([torch.where(is_asked, asked, others), asked], dim=1)
        return written(prompt, self.symbols - 1 + times)

    def solve(self, prompt: tuple[int, ...]) -> tuple[int, ...] | None:
        times = prompt[:-1].count(prompt[-1])
        return (self.symbols - 1 + times,) if 1 <= times <= self.most else None

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 / self.most}
