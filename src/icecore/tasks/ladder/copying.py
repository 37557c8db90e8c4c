"""Copying a word, forward or backward."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from icecore.errors import require_choices
from icecore.tasks.base import Coordinates
from icecore.tasks.batch import Batch
from icecore.tasks.drawing import below
from icecore.tasks.ladder.base import MOST, USUAL_TEST_SIZE, LadderTask, constant_column, written

WRITE = 0


@dataclass(frozen=True)
class Copying(LadderTask):
    """Given a word, write it again, forward or backward.

    In words:    c a b | -> c a b,   backward: b a c
    As tokens:   3 1 2 0 -> 3 1 2,             2 1 3       (0: write, symbols from 1)
    """

    length: int = 16
    symbols: int = 32
    order: Literal["forward", "backward"] = "forward"
    test_size: int = USUAL_TEST_SIZE

    name: ClassVar[str] = "copying"
    difficulty_setting: ClassVar = "length"
    difficulties: ClassVar = (4, 8, 16, 32, 64)

    def __post_init__(self) -> None:
        require_choices(self)
        self.require_sizes(length=(1, MOST), symbols=(2, MOST))

    @property
    def vocab_size(self) -> int:
        return self.symbols + 1

    @property
    def max_length(self) -> int:
        return 2 * self.length

    @property
    def item_count(self) -> int:
        return self.symbols**self.length

    def coordinates(self) -> Coordinates:
        return Coordinates(rounds=1, symbols=self.symbols, circuit_class="AC0")

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        word = 1 + below(self.symbols, (count, self.length), generator)
        answer = word if self.order == "forward" else word.flip(1)
        return written(torch.cat([word, constant_column(WRITE, word)], dim=1), answer)

    def solve(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        word = prompt[:-1]
        return word if self.order == "forward" else word[::-1]

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 / self.symbols}
