"""k-hop induction: look up where the last symbol occurred, k times in a row."""

import itertools
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Int64
from torch import Tensor

from icecore.errors import require
from icecore.tasks.base import Coordinates
from icecore.tasks.batch import Batch
from icecore.tasks.drawing import below
from icecore.tasks.ladder.base import MOST, USUAL_TEST_SIZE, TaggingTask, tagged


@dataclass(frozen=True)
class KHop(TaggingTask):
    """Given symbols, hop k times to what followed the last earlier occurrence, and tell the symbol there.

    In words:     c d a c b a -> c with k = 1 (c followed the earlier a), d with k = 2 (d followed the earlier c)
    As tokens:    2 3 0 2 1 0 -> 3, 2 (at the second 2 and the second 0) with k = 1, 3 with k = 2

    Scored at every position from which k hops are possible. SOURCE: Sanford et al., arXiv 2402.09268, where
    transformers of depth about log2 k are sufficient and necessary. DIFFERS: no symbol follows itself, so that each
    hop goes back.
    """

    hops: int = 2
    length: int = 100
    symbols: int = 4
    test_size: int = USUAL_TEST_SIZE

    name: ClassVar[str] = "k-hop"
    difficulty_setting: ClassVar = "hops"
    difficulties: ClassVar = (1, 2, 3, 4, 8, 16)

    def __post_init__(self) -> None:
        require(self.hops >= 1, f"hops must be at least 1, got {self.hops}: without hops the answer is the last symbol")
        require(
            self.symbols >= 3,
            f"symbols must be at least 3, got {self.symbols}: no symbol follows itself, and two would alternate",
        )
        self.require_sizes(length=(4, MOST), symbols=(3, MOST))
        needed = 2 * self.hops * (self.symbols - 1)
        require(
            self.length >= needed,
            f"{self.hops} hops among {self.symbols} symbols need a length of {needed}, twice their mean distance, "
            f"got {self.length}",
        )

    @property
    def vocab_size(self) -> int:
        return self.symbols + 1  # the last one pads

    @property
    def max_length(self) -> int:
        return self.length

    @property
    def item_count(self) -> int:
        return self.symbols * (self.symbols - 1) ** (self.length - 1)

    def coordinates(self) -> Coordinates:
        # SOURCE: arXiv 2402.09268: depth floor(log2 k) + 2 suffices.
        return Coordinates(rounds=self.hops.bit_length() + 1, symbols=self.symbols, circuit_class="AC0")

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        tokens = self.strings(count, generator)
        answers = hopped(tokens, self.hops, self.symbols)
        while len(without := (answers < 0).all(dim=1).nonzero()[:, 0]) > 0:  # rare: no position has k hops
            tokens[without] = self.strings(len(without), generator)
            answers[without] = hopped(tokens[without], self.hops, self.symbols)
        return tagged(tokens, answers, answers >= 0, self.symbols)

    def strings(self, count: int, generator: torch.Generator) -> Int64[Tensor, "batch seq"]:
        """Draw strings in which no symbol follows itself."""
        steps = 1 + below(self.symbols - 1, (count, self.length), generator)
        steps[:, 0] = below(self.symbols, (count,), generator)
        return steps.cumsum(dim=1) % self.symbols

    def solve(self, prompt: tuple[int, ...]) -> tuple[int | None, ...] | None:
        if any(one == other for one, other in itertools.pairwise(prompt)):
            return None
        seen: dict[int, int] = {}
        back: list[int | None] = []  # the position after the last earlier occurrence
        for position, symbol in enumerate(prompt):
            back.append(seen.get(symbol))
            seen[symbol] = position + 1
        answers: list[int | None] = []
        for begin in range(len(prompt)):
            position: int | None = begin
            for _ in range(self.hops):
                position = None if position is None else back[position]
            answers.append(None if position is None else prompt[position])
        return tuple(answers)

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 / self.symbols}


def hopped(tokens: Int64[Tensor, "batch seq"], hops: int, symbols: int) -> Int64[Tensor, "batch seq"]:
    """Return the symbol that each position reaches by k hops; -1 where they are not possible."""
    count, length = tokens.shape
    row = torch.arange(count, device=tokens.device)
    latest = torch.full((symbols * count,), length, device=tokens.device)  # position after a symbol's last occurrence
    back = torch.full((length + 1, count), length, device=tokens.device)  # row `length` stands for nowhere
    for position, place in enumerate((tokens * count + row[:, None]).T.contiguous()):
        back[position] = latest.take(place)
        latest.put_(place, torch.full_like(place, position + 1))
    reached = torch.arange(length + 1, device=tokens.device)[:, None].expand(-1, count)
    while hops:  # by doubling: hops, twice as many, ...
        if hops & 1:
            reached = back.gather(0, reached)
        back, hops = back.gather(0, back), hops >> 1
    symbol = torch.cat([tokens.T, torch.full_like(tokens.T[:1], -1)])
    return symbol.gather(0, reached)[:length].T.contiguous()
