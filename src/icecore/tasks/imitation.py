"""Circuit imitation: give the same output distribution as another model."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.errors import InputError, require
from icecore.tasks.base import Batch, Item
from icecore.tasks.drawing import below
from icecore.tasks.plain import RELEASED_SEED, PlainTask

Target = Callable[[Int64[Tensor, "batch seq"]], Float[Tensor, "batch vocab"]]


@dataclass(frozen=True)
class Imitation(PlainTask):
    """Given uniformly random tokens, predict what a target model would say after the last of them.

    With 4 tokens:   17 480 3 255 -> the target's distribution over 512 tokens

    `target` is handed in by whoever builds the run: token ids to log-probabilities at the last position
    (training hands in a random transformer of `target_width`). `targets` holds the target's most likely
    token, so accuracy is agreement with it.
    """

    length: int = 40  # SOURCE: appendix D.1.2
    vocabulary: int = 512
    target_width: int = 16  # SOURCE: Figure 6 has targets of width 4 to 128
    target: Target | None = field(default=None, repr=False)

    name: ClassVar[str] = "imitation"

    def __post_init__(self) -> None:
        require(self.length >= 1, f"length must be at least 1, got {self.length}")
        require(self.vocabulary >= 2, f"vocabulary must be at least 2, got {self.vocabulary}")
        require(
            self.target_width >= 2 and self.target_width % 2 == 0,
            f"target_width must be even, for the target's 2 heads, got {self.target_width}",
        )

    @property
    def vocab_size(self) -> int:
        return self.vocabulary

    @property
    def max_length(self) -> int:
        return self.length

    def plain_item(self, rng: random.Random) -> Item:
        """The inputs alone: the answer is a distribution, which `draw` and `encode` ask the target for."""
        return Item(tuple(rng.randint(0, self.vocabulary - 1) for _ in range(self.length)), ())

    def test_rng(self) -> random.Random:
        """Where the scripts' generator stands at the first test item: behind two self-checks of theirs."""
        rng = random.Random(RELEASED_SEED)
        for _ in range(10_000):
            self.plain_item(rng)
        for _ in range(2 * 10_000):
            rng.choice(range(10_000))
        return rng

    def encode(self, items: Sequence[Item]) -> Batch:
        return self.ask(torch.tensor([item.prompt for item in items]))

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        return self.ask(below(self.vocabulary, (count, self.length), generator))

    def ask(self, tokens: Int64[Tensor, "batch seq"]) -> Batch:
        """The batch of these inputs, with the target's outputs."""
        if self.target is None:
            raise InputError("imitation needs a target model: hand its outputs in as target=...")
        with torch.no_grad():
            log_probs = self.target(tokens)
        targets = torch.zeros_like(tokens)
        targets[:, -1] = log_probs.argmax(dim=-1)
        scored = torch.zeros_like(tokens, dtype=torch.bool)
        scored[:, -1] = True
        return Batch(tokens, targets, scored, log_probs)

    def floors(self) -> dict[str, float]:
        return {"chance": 1 / self.vocabulary}
