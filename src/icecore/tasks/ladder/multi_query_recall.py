"""Multi-query associative recall."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from icecore.errors import require
from icecore.tasks.base import Coordinates
from icecore.tasks.batch import Batch
from icecore.tasks.drawing import below, distinct_below
from icecore.tasks.ladder.base import MOST, USUAL_TEST_SIZE, TaggingTask, tagged

FILLER = 0


@dataclass(frozen=True)
class MultiQueryRecall(TaggingTask):
    """Given key-value pairs, then each key once more among fillers, tell the key's value at each.

    In words:    a 3 b 1 . . b . a . -> 1 (at b), 3 (at a)
    As tokens, 4 keys and 4 values:   1 7 2 5 0 0 2 0 1 0 -> 5, 7      (0 fills; keys from 1; values after the keys)

    SOURCE: the task of Zoology (arXiv 2312.04927), with its sizes: an item has 16 tokens per pair.
    """

    pairs: int = 4
    spacing: int = 16  # tokens per pair
    keys: int = 64
    values: int = 64
    test_size: int = USUAL_TEST_SIZE

    name: ClassVar[str] = "multi-query-recall"
    difficulty_setting: ClassVar = "pairs"
    difficulties: ClassVar = (2, 4, 8, 16)

    def __post_init__(self) -> None:
        require(self.pairs >= 2, f"pairs must be at least 2, got {self.pairs}: one pair's value needs no key")
        require(
            self.pairs <= self.keys,
            f"a vocabulary of {self.keys} keys cannot hold {self.pairs} pairs: take fewer pairs or more keys",
        )
        self.require_sizes(spacing=(3, MOST), keys=(2, MOST), values=(2, MOST))
        require(self.max_length <= MOST, f"items must have at most {MOST:,} tokens, got {self.max_length:,}")

    @property
    def vocab_size(self) -> int:
        return 1 + self.keys + self.values

    @property
    def max_length(self) -> int:
        return self.spacing * self.pairs

    @property
    def item_count(self) -> int:
        """Return a lower bound: the values alone, with the keys' order."""
        return self.values**self.pairs * self.keys

    def coordinates(self) -> Coordinates:
        return Coordinates(rounds=2, symbols=self.keys + self.values, circuit_class="AC0")

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        begin, shape = 2 * self.pairs, (count, self.pairs)
        keys = 1 + distinct_below(self.keys, shape, generator)
        values = 1 + self.keys + below(self.values, shape, generator)
        asked_at = begin + distinct_below(self.max_length - begin, shape, generator)
        tokens = torch.full((count, self.max_length), FILLER, device=keys.device)
        tokens[:, 0:begin:2], tokens[:, 1:begin:2] = keys, values
        tokens.scatter_(1, asked_at, keys)
        targets = torch.zeros_like(tokens).scatter_(1, asked_at, values)
        return tagged(tokens, targets, targets > 0, FILLER)

    def solve(self, prompt: tuple[int, ...]) -> tuple[int | None, ...] | None:
        begin = 2 * self.pairs
        keys, values, rest = prompt[0:begin:2], prompt[1:begin:2], prompt[begin:]
        value_of = dict(zip(keys, values, strict=True))
        are_right = all(1 <= key <= self.keys for key in keys) and all(value > self.keys for value in values)
        if len(value_of) < self.pairs or not are_right or not {*rest} <= {FILLER, *keys}:
            return None
        return (*[None] * begin, *(value_of.get(token) for token in rest))

    def baselines(self) -> dict[str, float]:
        """Return the expected accuracy of a random value of the context, if all differ."""
        return {"random_context_value": 1 / self.pairs}
