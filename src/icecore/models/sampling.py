"""Sample text from a model: greedy, with a temperature, or with top-p."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from icecore.errors import require
from icecore.models.base import Model, Parameters, device_of
from icecore.seeding import make_generator


@dataclass(frozen=True)
class Sampling:
    """Settings for drawing the next token."""

    temperature: float = 1.0  # 0 takes the most likely token
    top_p: float = 1.0  # draw from the most likely tokens that together have this probability; 1 is all
    seed: int = 0

    def __post_init__(self) -> None:
        is_right = math.isfinite(self.temperature) and self.temperature >= 0
        require(is_right, f"--temperature must be at least 0 and finite, got {self.temperature}")
        require(0 < self.top_p <= 1, f"--top-p must be above 0 and at most 1, got {self.top_p}")

    def probabilities(self, logits: Float[Tensor, "batch vocab"]) -> Float64[Tensor, "batch vocab"]:
        """Return the distribution of the next token."""
        logits = logits.double()
        if self.temperature == 0:
            most_likely = torch.zeros_like(logits)
            return most_likely.scatter_(1, logits.argmax(dim=1, keepdim=True), 1.0)
        chances = (logits / self.temperature).softmax(dim=1)
        if self.top_p == 1:
            return chances
        ordered, tokens = chances.sort(dim=1, descending=True, stable=True)
        is_enough = ordered.cumsum(dim=1) - ordered >= self.top_p  # without this token's own
        kept = chances.masked_fill(is_enough.gather(1, tokens.argsort(dim=1)), 0.0)
        return kept / kept.sum(dim=1, keepdim=True)

    def choose(self, logits: Float[Tensor, "batch vocab"], generators: Sequence[torch.Generator]) -> list[int]:
        """Draw one token per row, each with its own generator."""
        heights = self.probabilities(logits.cpu()).cumsum(dim=1)
        random = torch.stack([torch.rand(1, dtype=torch.float64, generator=each) for each in generators])
        # The first token whose cumulative probability exceeds the random number: its probability is above 0.
        places = torch.searchsorted(heights, random * heights[:, -1:], right=True)
        return places[:, 0].clamp(max=heights.shape[1] - 1).tolist()


def continuations(
    model: Model,
    parameters: Parameters,
    prompt: Sequence[int],
    sampling: Sampling,
    *,
    count: int,
    tokens: int,
    positions: int,
    end_token: int,
) -> Iterator[list[int | None]]:
    """Yield per step the next token of each of `count` continuations; None for those that have ended.

    A continuation ends with the end token, after `tokens` tokens, or when the next one would need a position beyond
    `positions`. Each has its own random stream.
    """
    generators = [make_generator(sampling.seed, "sample", index) for index in range(count)]
    logits_of, cache = model.decoder(parameters)
    device = device_of(parameters)
    fed = torch.tensor([list(prompt)] * count, device=device)
    has_ended = [False] * count
    for _ in range(min(tokens, positions - len(prompt) + 1)):
        with torch.no_grad():
            logits, cache = logits_of(fed, cache)
        chosen = sampling.choose(logits[:, -1], generators)
        yield [None if ended else token for token, ended in zip(chosen, has_ended, strict=True)]
        has_ended = [ended or token == end_token for token, ended in zip(chosen, has_ended, strict=True)]
        if all(has_ended):
            return
        fed = torch.tensor(chosen, device=device)[:, None]
