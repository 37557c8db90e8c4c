"""Boolean formulas."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Int64
from torch import Tensor

from icecore.tasks.base import Coordinates
from icecore.tasks.batch import Batch
from icecore.tasks.drawing import below
from icecore.tasks.ladder.base import USUAL_TEST_SIZE, LadderTask, constant_column, written

DEEPEST = 11  # 4,095 tokens
AND, OR, ASK = 2, 3, 4


@dataclass(frozen=True)
class BooleanFormula(LadderTask):
    """Given a formula of "and" and "or", each before its two arguments, tell its value.

    In words, depth 2:   and (or 0 1) (and 1 1)? -> 1
    As tokens:           2 3 0 1 2 1 1 4 -> 1       (2: and, 3: or, 4: ?)

    The formula is a full binary tree; operators and constants are uniform, so that half of the values are 1.
    """

    depth: int = 3
    test_size: int = USUAL_TEST_SIZE

    name: ClassVar[str] = "boolean-formula"
    difficulty_setting: ClassVar = "depth"
    difficulties: ClassVar = (2, 3, 4, 5, 6)

    def __post_init__(self) -> None:
        self.require_sizes(depth=(1, DEEPEST))

    @property
    def vocab_size(self) -> int:
        return ASK + 1

    @property
    def max_length(self) -> int:
        return 2 ** (self.depth + 1)

    @property
    def item_count(self) -> int:
        return 2 ** (self.max_length - 1)

    def coordinates(self) -> Coordinates:
        return Coordinates(rounds=self.depth, symbols=4, circuit_class="NC1")  # a level of the tree per round

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        choices = below(2, (count, self.max_length - 1), generator)
        values = choices[:, 2**self.depth - 1 :]  # values of the constants; nodes are numbered level by level
        for level in reversed(range(self.depth)):
            is_or = choices[:, 2**level - 1 : 2 ** (level + 1) - 1]
            left, right = values[:, ::2], values[:, 1::2]
            values = torch.where(is_or == 1, left | right, left & right)
        choices[:, : 2**self.depth - 1] += AND
        prompt = choices[:, prefix_order(self.depth).to(choices.device)]
        return written(torch.cat([prompt, constant_column(ASK, prompt)], dim=1), values)

    def solve(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        """Evaluate from right to left, with a stack of values."""
        stack: list[int] = []
        for token in reversed(prompt[:-1]):
            if token in (AND, OR):
                left, right = stack.pop(), stack.pop()
                stack.append(left & right if token == AND else left | right)
            else:
                stack.append(token)
        return (stack.pop(),)

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 / 2}


def prefix_order(depth: int) -> Int64[Tensor, " nodes"]:
    """Return the nodes of a full tree, numbered level by level, with each node before its subtrees."""
    order, last = [], 2 ** (depth + 1) - 1
    waiting = [0]
    while waiting:
        node = waiting.pop()
        order.append(node)
        if 2 * node + 2 < last:
            waiting += [2 * node + 2, 2 * node + 1]
    return torch.tensor(order)
