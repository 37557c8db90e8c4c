"""Nested brackets of several types: which one closes next?"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from icecore.errors import require
from icecore.tasks.base import Coordinates
from icecore.tasks.batch import Batch
from icecore.tasks.drawing import below
from icecore.tasks.ladder.base import MOST, USUAL_TEST_SIZE, TaggingTask, tagged

FIRST_STEPS = (True, True, False)  # open, open, close: every item has a scored position


@dataclass(frozen=True)
class Dyck(TaggingTask):
    """Given the beginning of a well-nested string of brackets, tell which bracket would close the innermost open one.

    In words, 2 types:   ( [ ( ) ] -> ] after the first closing bracket, ) after the second
    As tokens:           0 1 0 2 3 -> 3, 2      (types open as 0, 1 and close as 2, 3)

    Scored after every closing bracket inside another pair: after an opening one, the last token tells the answer.
    Each bracket opens or closes with probability 1/2, between depth 0 and `depth`. SOURCE: two layers suffice
    (arXiv 2105.11115).
    """

    depth: int = 4
    types: int = 2
    length: int = 64
    test_size: int = USUAL_TEST_SIZE

    name: ClassVar[str] = "dyck"
    difficulty_setting: ClassVar = "depth"
    difficulties: ClassVar = (3, 4, 6, 8)

    def __post_init__(self) -> None:
        require(
            self.depth >= 3,
            f"depth must be at least 3, got {self.depth}: below, one bracket is open after a closing one, and counts "
            "of brackets tell which",
        )
        require(self.types >= 2, f"types must be at least 2, got {self.types}: one type is always the answer")
        self.require_sizes(depth=(3, MOST), types=(2, MOST), length=(6, MOST))
        require(
            self.depth <= self.length // 2,
            f"depth must be at most {self.length // 2}, half of the length, got {self.depth}",
        )

    @property
    def vocab_size(self) -> int:
        return 2 * self.types + 1  # the last one pads

    @property
    def max_length(self) -> int:
        return self.length

    @property
    def item_count(self) -> int:
        """Return a lower bound: the types of the shortest pairs that follow each other."""
        return self.types ** (self.length // 2)

    def coordinates(self) -> Coordinates:
        return Coordinates(rounds=2, symbols=2 * self.types, circuit_class="TC0")

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        heads, types = below(2, (count, self.length), generator), below(self.types, (count, self.length), generator)
        row = torch.arange(count, device=heads.device)
        depth = torch.zeros_like(row)
        stack = torch.zeros((count, self.depth + 1), dtype=torch.int64, device=heads.device)
        tokens, innermost, opens = [], [], []
        for step in range(self.length):
            opening = ((heads[:, step] == 1) | (depth == 0)) & (depth < self.depth)
            if step < len(FIRST_STEPS):
                opening = torch.full_like(opening, FIRST_STEPS[step])
            tokens.append(torch.where(opening, types[:, step], self.types + stack[row, depth]))
            depth = depth + torch.where(opening, 1, -1)
            stack[row, depth] = torch.where(opening, types[:, step], stack[row, depth])
            innermost.append(self.types + stack[row, depth])
            opens.append(opening | (depth == 0))
        return tagged(torch.stack(tokens, 1), torch.stack(innermost, 1), ~torch.stack(opens, 1), 2 * self.types)

    def solve(self, prompt: tuple[int, ...]) -> tuple[int | None, ...] | None:
        """Return the answers; a closing bracket closes the innermost one, of whatever type it is."""
        stack: list[int] = []
        answers: list[int | None] = []
        for token in prompt:
            is_opening = token < self.types
            if is_opening:
                stack.append(token)
            elif stack:
                stack.pop()
            else:
                return None
            answers.append(None if is_opening or not stack else self.types + stack[-1])
            if len(stack) > self.depth:
                return None
        return tuple(answers)

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 / self.types}
