"""Word problems of groups: the product of all elements so far."""

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.errors import require_choices
from icecore.tasks.base import Coordinates
from icecore.tasks.batch import Batch
from icecore.tasks.drawing import below
from icecore.tasks.ladder.base import MOST, USUAL_TEST_SIZE, TaggingTask, tagged
from icecore.tasks.ladder.groups import ORDER, Group, group_table


@dataclass(frozen=True)
class WordProblem(TaggingTask):
    """Given elements of a group of order 60, tell the product of the elements so far, at each.

    In words, Z60:   50 9 3 -> 50 59 2
    As tokens:       50 9 3 -> 50 59 2      (A5 and A4 x Z5 have their elements numbered, the identity first)

    The three groups have the same tokens, labels and chance: Z60 is abelian, A4 x Z5 solvable, A5 neither. Finding
    the product in A5 is NC1-complete (SOURCE: Barrington 1989); arXiv 2210.10749 has constant depth for the others.
    """

    group: Group = "A5"
    length: int = 8
    test_size: int = USUAL_TEST_SIZE

    name: ClassVar[str] = "word-problem"
    difficulty_setting: ClassVar = "length"
    difficulties: ClassVar = (2, 4, 8, 16, 32)

    def __post_init__(self) -> None:
        require_choices(self)
        self.require_sizes(length=(2, MOST))

    @property
    def vocab_size(self) -> int:
        return ORDER

    @property
    def max_length(self) -> int:
        return self.length

    @property
    def item_count(self) -> int:
        return ORDER**self.length

    def coordinates(self) -> Coordinates:
        """Return the rounds of a sum for Z60, one per step of the derived series for A4 x Z5, of a tree for A5."""
        rounds = {"Z60": 1, "A4xZ5": 2, "A5": math.ceil(math.log2(self.length))}
        return Coordinates(rounds[self.group], ORDER, "NC1" if self.group == "A5" else "TC0")

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        tokens = below(ORDER, (count, self.length), generator)
        table = group_table(self.group).to(tokens.device)
        products = [tokens[:, 0]]
        for element in tokens[:, 1:].T:
            products.append(table[products[-1], element])
        return tagged(tokens, torch.stack(products, dim=1), torch.ones_like(tokens, dtype=torch.bool), 0)

    def solve(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        table, products = rows_of(self.group), [0]
        for element in prompt:
            products.append(table[products[-1]][element])
        return tuple(products[1:])

    def accuracies(
        self, predictions: Int64[Tensor, "*seeds batch seq"], batch: Batch
    ) -> dict[str, Float[Tensor, "*seeds"]]:
        """Add the accuracy of the last product: the first products are easier."""
        last = predictions[..., -1] == batch.targets[:, -1]
        return {**super().accuracies(predictions, batch), "last_accuracy": last.float().mean(dim=-1)}

    def baselines(self) -> dict[str, float]:
        """Return the accuracy of guessing all products but the first, which is its element."""
        return {"first_element_and_chance": (1 + (self.length - 1) / ORDER) / self.length}


@functools.cache
def rows_of(group: Group) -> list[list[int]]:
    return group_table(group).tolist()
