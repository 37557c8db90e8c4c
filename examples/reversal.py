"""A complete task of your own: `icecore tasks --check examples/reversal.py:Reversal`."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from icecore.errors import require
from icecore.tasks import Batch, Task


@dataclass(frozen=True)
class Reversal(Task):
    """Given letters and a bar, write the letters backwards.   As tokens:  3 1 2 0 -> 2 1 3"""

    letters: int = 8
    length: int = 6
    name: ClassVar[str] = "reversal"

    def __post_init__(self) -> None:
        require(self.letters >= 1 and self.length >= 1, "letters and length must be at least 1")

    @property
    def vocab_size(self) -> int:
        return self.letters + 1  # token 0 is the bar

    @property
    def max_length(self) -> int:
        return 2 * self.length  # the last letter is predicted, never fed

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        device = generator.device
        word = torch.randint(1, self.letters + 1, (count, self.length), generator=generator, device=device)
        bar = torch.zeros((count, 1), dtype=torch.int64, device=device)
        sequence = torch.cat([word, bar, word.flip(1)], dim=1)
        scored = torch.arange(self.max_length, device=device) >= self.length
        return Batch(sequence[:, :-1], sequence[:, 1:] * scored, scored.expand(count, -1))

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 / self.letters}
