"""Circuit imitation: match the output distribution of another model."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.errors import InputError, require, require_choices
from icecore.seeding import make_generator
from icecore.tasks.batch import Batch, Item
from icecore.tasks.drawing import below
from icecore.tasks.plain import RELEASED_SEED, PlainTask, require_test_size

TargetInit = Literal["released", "text", "appendix"]
TARGET_INITS: tuple[TargetInit, ...] = ("released", "text", "appendix")
WIDEST_TARGET = 4_096  # 2.4 GB of weights
FRESH_INPUTS = 4_000  # for the baselines that need the target's outputs
TargetFunction = Callable[[Int64[Tensor, "batch seq"]], Float[Tensor, "batch vocab"]]


@dataclass(frozen=True)
class Imitation(PlainTask):
    """Given uniformly random tokens, predict a target model's output at the last one.

    With 4 tokens:   17 480 3 255 -> the target's distribution over 512 tokens

    `target` maps token ids to log-probabilities at the last position. Training passes a random transformer of
    `target_width`, scaled according to `target_init`. `targets` holds the target's most likely token, so accuracy
    is agreement with it. The main metric is the loss, the KL divergence.
    """

    length: int = 40  # SOURCE: appendix D.1.2
    vocabulary: int = 512
    target_width: int = 16  # SOURCE: Figure 6 has targets of width 4 to 128
    target_init: TargetInit = "released"  # three readings of one initialization: training.imitation_target
    test_size: int = 4000
    target: TargetFunction | None = field(default=None, repr=False)

    name: ClassVar[str] = "imitation"
    # SOURCE: section 6.2; the scripts scale other matrices than the text.
    presets: ClassVar = {"released": {}, "reconstructed": {}, "paper": {"target_init": "text"}}
    difficulty_setting: ClassVar = "target_width"
    difficulties: ClassVar = (4, 8, 16, 32, 64, 128)
    no_lazy_rules: ClassVar = "it is judged by its loss"

    def __post_init__(self) -> None:
        require(self.length >= 1, f"length must be at least 1, got {self.length}")
        require(self.vocabulary >= 2, f"vocabulary must be at least 2, got {self.vocabulary}")
        require(
            self.target_width >= 2 and self.target_width % 2 == 0,
            f"target_width must be even, for the target's 2 heads, got {self.target_width}",
        )
        require(
            self.target_width <= WIDEST_TARGET,
            f"target_width must be at most {WIDEST_TARGET:,}, got {self.target_width:,}",
        )
        require_choices(self)
        require_test_size(self.test_size)

    @property
    def vocab_size(self) -> int:
        return self.vocabulary

    @property
    def max_length(self) -> int:
        return self.length

    def plain_item(self, rng: random.Random) -> Item:
        """Draw the inputs only: the answer is a distribution, which `draw` and `encode` get from the target."""
        return Item(tuple(rng.randint(0, self.vocabulary - 1) for _ in range(self.length)), ())

    def test_rng(self) -> random.Random:
        """Return the scripts' generator at the first test item, after their two self-checks."""
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
        """Return the batch of these inputs, with the target's outputs."""
        if self.target is None:
            raise InputError("imitation needs a target model: pass one as target=...")
        with torch.no_grad():
            log_probs = self.target(tokens)
        targets = torch.zeros_like(tokens)
        targets[:, -1] = log_probs.argmax(dim=-1)
        scored = torch.zeros_like(tokens, dtype=torch.bool)
        scored[:, -1] = True
        return Batch(tokens, targets, scored, log_probs)

    def baselines(self) -> dict[str, float]:
        """Return the agreement with the target of a uniform guess and, given a target, of its most frequent token."""
        chance = {"chance": 1 / self.vocabulary}
        if self.target is None:
            return chance
        answers = self.draw(FRESH_INPUTS, make_generator(0, "most frequent token")).targets[:, -1]
        most_frequent = answers.bincount(minlength=self.vocabulary).argmax()
        agreement = (self.test_set().targets[:, -1] == most_frequent).float().mean()
        return {**chance, "most_frequent_token": float(agreement)}

    def loss_baselines(self) -> dict[str, float]:
        """Return the KL divergences of two constant outputs: uniform, and the target's mean output."""
        log_probs = self.outputs(self.test_set())
        fresh = self.outputs(self.draw(FRESH_INPUTS, make_generator(0, "mean output")))
        return {
            "uniform": math.log(self.vocabulary) - float(entropies(log_probs).mean()),
            "mean_output": float(divergences(log_probs, mean_output(fresh)).mean()),
        }

    @staticmethod
    def outputs(batch: Batch) -> Float[Tensor, "batch vocab"]:
        assert batch.target_log_probs is not None
        return batch.target_log_probs.double()


def entropies(log_probs: Float[Tensor, "batch vocab"]) -> Float[Tensor, " batch"]:
    """Return the entropy of each row, in nats."""
    return -(log_probs.exp() * log_probs).sum(dim=-1)


def divergences(
    log_probs: Float[Tensor, "batch vocab"], others: Float[Tensor, "#batch vocab"]
) -> Float[Tensor, " batch"]:
    """Return KL(log_probs || others) of each row, in nats."""
    return (log_probs.exp() * (log_probs - others)).sum(dim=-1)


def mean_output(log_probs: Float[Tensor, "batch vocab"]) -> Float[Tensor, "1 vocab"]:
    """Return the logarithm of the mean distribution."""
    return log_probs.logsumexp(dim=0, keepdim=True) - math.log(len(log_probs))
