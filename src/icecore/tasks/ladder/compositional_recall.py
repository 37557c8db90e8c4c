"""Recall by two keys: either key alone leaves several values."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from icecore.errors import require
from icecore.tasks.base import Coordinates
from icecore.tasks.batch import Batch
from icecore.tasks.drawing import below, distinct_below
from icecore.tasks.ladder.base import MOST, USUAL_TEST_SIZE, LadderTask, written


@dataclass(frozen=True)
class CompositionalRecall(LadderTask):
    """Given values named by two keys each, in any order, answer with the value of two keys.

    In words, a grid of 2 x 2:   a c 5, b d 1, a d 2, b c 7; a d? -> 2
    As tokens, 4 keys a kind:    1 5 14  2 6 10  1 6 11  2 5 16  1 6 -> 11

    The pairs form a grid: every first key occurs with every second key, so that one key alone leaves `side` values.
    Tokens: first keys from 1, then second keys, then values. SOURCE: a grid of keys, as in HazyResearch/zoology.
    """

    side: int = 3
    keys: int = 16  # keys of each kind
    values: int = 64
    test_size: int = USUAL_TEST_SIZE

    name: ClassVar[str] = "compositional-recall"
    difficulty_setting: ClassVar = "side"
    difficulties: ClassVar = (2, 3, 4, 6)

    def __post_init__(self) -> None:
        require(self.side >= 2, f"side must be at least 2, got {self.side}: one pair's value needs no key")
        require(
            self.side <= self.keys,
            f"a vocabulary of {self.keys} keys of each kind cannot hold a grid of side {self.side}: "
            "take a smaller side or more keys",
        )
        self.require_sizes(keys=(2, MOST), values=(2, MOST))
        require(self.max_length <= MOST, f"items must have at most {MOST:,} tokens, got {self.max_length:,}")

    @property
    def vocab_size(self) -> int:
        return 1 + 2 * self.keys + self.values

    @property
    def max_length(self) -> int:
        return 3 * self.side**2 + 2

    @property
    def item_count(self) -> int:
        """Return a lower bound: the values alone, with the pair that is asked for."""
        return self.values ** (self.side**2) * self.side**2

    def coordinates(self) -> Coordinates:
        return Coordinates(rounds=2, symbols=2 * self.keys + self.values, circuit_class="AC0")

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        side, cells = self.side, self.side**2
        first = 1 + distinct_below(self.keys, (count, side), generator)
        second = 1 + self.keys + distinct_below(self.keys, (count, side), generator)
        order = distinct_below(cells, (count, cells), generator)
        values = 1 + 2 * self.keys + below(self.values, (count, cells), generator)
        both = torch.stack([first.gather(1, order // side), second.gather(1, order % side), values], dim=2)
        asked = below(cells, (count,), generator)
        chosen = both[torch.arange(count, device=asked.device), asked]
        return written(torch.cat([both.flatten(1), chosen[:, :2]], dim=1), chosen[:, 2:])

    def solve(self, prompt: tuple[int, ...]) -> tuple[int, ...] | None:
        cells = 3 * self.side**2
        first, second, values = (prompt[begin:cells:3] for begin in range(3))
        value_of = dict(zip(zip(first, second, strict=True), values, strict=True))
        bounds = (0, self.keys, 2 * self.keys, self.vocab_size - 1)
        are_right = all(
            low < token <= high
            for tokens, low, high in zip((first, second, values), bounds[:3], bounds[1:], strict=True)
            for token in tokens
        )
        is_grid = len(value_of) == self.side**2 and len({*first}) == len({*second}) == self.side
        asked = (prompt[-2], prompt[-1])
        return (value_of[asked],) if are_right and is_grid and asked in value_of else None

    def baselines(self) -> dict[str, float]:
        """Return the expected accuracy of a guess among all values and among those of one key, if all differ."""
        return {"random_context_value": 1 / self.side**2, "one_key": 1 / self.side}
