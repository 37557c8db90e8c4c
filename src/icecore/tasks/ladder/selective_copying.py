"""Selective copying: write the letters that are scattered among blanks."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from icecore.errors import require
from icecore.tasks.base import Coordinates
from icecore.tasks.batch import Batch
from icecore.tasks.drawing import below, distinct_below
from icecore.tasks.ladder.base import MOST, USUAL_TEST_SIZE, LadderTask, constant_column, written

BLANK = 0


@dataclass(frozen=True)
class SelectiveCopying(LadderTask):
    """Given letters scattered among blanks, write the letters in order.

    In words, 3 letters in 6:   . b . a b . -> b a b
    As tokens, 16 symbols:      0 2 0 1 2 0 17 -> 2 1 2       (0: blank, 17: write)

    SOURCE: the task of MAD (arXiv 2403.17844), there 16 letters in 256 positions.
    """

    letters: int = 16
    length: int = 64
    symbols: int = 16
    test_size: int = USUAL_TEST_SIZE

    name: ClassVar[str] = "selective-copying"
    difficulty_setting: ClassVar = "letters"
    difficulties: ClassVar = (2, 4, 8, 16, 32)

    def __post_init__(self) -> None:
        self.require_sizes(letters=(1, MOST), length=(2, MOST), symbols=(2, MOST))
        require(
            self.letters < self.length,
            f"letters must be below {self.length}, the length, got {self.letters}: without blanks it is copying",
        )

    @property
    def vocab_size(self) -> int:
        return self.symbols + 2

    @property
    def max_length(self) -> int:
        return self.length + self.letters

    @property
    def item_count(self) -> int:
        return self.symbols**self.letters * math.comb(self.length, self.letters)

    def coordinates(self) -> Coordinates:
        return Coordinates(rounds=2, symbols=self.symbols, circuit_class="TC0")  # rank the letters, then fetch one

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        letters = 1 + below(self.symbols, (count, self.letters), generator)
        places = distinct_below(self.length, (count, self.letters), generator).sort(dim=1).values
        scattered = torch.full((count, self.length), BLANK, device=letters.device).scatter_(1, places, letters)
        return written(torch.cat([scattered, constant_column(self.symbols + 1, scattered)], dim=1), letters)

    def solve(self, prompt: tuple[int, ...]) -> tuple[int, ...] | None:
        letters = tuple(token for token in prompt[:-1] if token != BLANK)
        return letters if len(letters) == self.letters else None

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 / self.symbols}
