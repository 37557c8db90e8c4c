"""Modular addition."""

import math
import random
from dataclasses import dataclass
from typing import ClassVar

from icecore.errors import require
from icecore.tasks.base import Coordinates
from icecore.tasks.batch import Item
from icecore.tasks.finite import PairTask
from icecore.tasks.plain import RELEASED_SEED

MOST = 2_048


@dataclass(frozen=True)
class ModularAddition(PairTask):
    """Given tokens a, b, predict (a + b) mod p.

    With p = 5:   3 4 -> 2      0 1 -> 1
    """

    modulus: int = 199  # SOURCE: section 4.1. DIFFERS: the modular row of Table 6 counts 97 tokens
    train_fraction: float = 0.95  # SOURCE: appendix D.1.1

    name: ClassVar[str] = "modular-addition"
    presets: ClassVar = {"released": {}, "reconstructed": {}, "paper": {}}
    difficulty_setting: ClassVar = "modulus"
    difficulties: ClassVar = (23, 59, 97, 199)

    def __post_init__(self) -> None:
        require(2 <= self.modulus <= MOST, f"modulus must be 2 to {MOST:,}, 4 million pairs, got {self.modulus}")
        pairs = self.modulus**2
        require(math.isfinite(self.train_fraction), f"train_fraction must be finite, got {self.train_fraction}")
        require(
            self.train_fraction < 1 and 1 <= int(self.train_fraction * pairs) < pairs,
            f"train_fraction must leave items to train on and to test on: of {pairs} pairs, "
            f"{self.train_fraction} leaves none for one of them",
        )

    @property
    def vocab_size(self) -> int:
        return self.modulus

    def splits(self) -> tuple[list[Item], list[Item]]:
        p = self.modulus
        items = [Item((a, b), ((a + b) % p,)) for a in range(p) for b in range(p)]
        random.Random(RELEASED_SEED).shuffle(items)
        train = int(self.train_fraction * len(items))
        return items[:train], items[train:]

    def coordinates(self) -> Coordinates:
        return Coordinates(rounds=1, symbols=self.modulus)

    def solve(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        return (sum(prompt) % self.modulus,)

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 / len({item.answer for item in self.train_items()})}
