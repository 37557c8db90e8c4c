"""Memorization: a table of random answers."""

import random
from dataclasses import dataclass
from typing import ClassVar

from icecore.errors import require
from icecore.tasks.batch import Item
from icecore.tasks.finite import PairTask
from icecore.tasks.plain import RELEASED_SEED

MOST_KEYS = 2_048


@dataclass(frozen=True)
class Memorization(PairTask):
    """Given keys x and y, recall their random but fixed answer.

    As tokens, with 512 keys:   0 512 -> 426      1 512 -> 305     (x, then 512 + y; answers 0..511)

    Nothing generalizes, so there is no test split: accuracy is measured on training items.
    """

    keys: int = 512  # SOURCE: appendix D.1.3

    name: ClassVar[str] = "memorization"
    presets: ClassVar = {"released": {}, "reconstructed": {}, "paper": {}}
    test_split: ClassVar = "none"
    difficulty_setting: ClassVar = "keys"
    difficulties: ClassVar = (32, 64, 128, 256, 512)
    no_lazy_rules: ClassVar = "its scored items are its training items, so a fitted rule would memorize some"

    def __post_init__(self) -> None:
        require(self.keys >= 2, f"keys must be at least 2, got {self.keys}")
        require(self.keys <= MOST_KEYS, f"keys must be at most {MOST_KEYS:,}, 4 million items, got {self.keys:,}")

    @property
    def vocab_size(self) -> int:
        return 2 * self.keys  # DIFFERS: answers use half of the output classes, as in the scripts

    def splits(self) -> tuple[list[Item], list[Item]]:
        rng = random.Random(RELEASED_SEED)
        items = [
            Item((raw % self.keys, self.keys + raw // self.keys), (rng.randint(0, self.keys - 1),))
            for raw in range(self.keys**2)
        ]
        return items, items

    def train_count(self) -> int:
        return self.keys**2  # without drawing the answers: a table of results only names its cells

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 / self.keys}
