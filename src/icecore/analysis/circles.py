"""Circles in the embeddings of modular addition, and whether the model uses them. Each metric needs its control.

An untrained model can score near 1 on gradient symmetricity and distance irrelevance: always show it as their control.
"""

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from icecore.errors import require
from icecore.models import Model, Parameters, device_of, hidden_with

# right: the logit of the right answer; largest-wrong: the largest logit of the others.
Logit = Literal["right", "largest-wrong"]
TRIPLES, TRIPLES_SEED = 100, 42  # SOURCE: the metric's definition
SUMS_AT_ONCE = 4_000


@dataclass(frozen=True)
class Circles:
    """Fourier statistics of the embeddings of 0 to p - 1."""

    circularity: float  # the mean over the first four components
    by_component: tuple[float, ...]
    spectrum: tuple[float, ...]  # the share of variance of each frequency from 1 to p // 2
    key_frequencies: tuple[int, ...]  # those with more than KEY_TIMES the uniform share, the largest first


KEY_TIMES = 3.0


def components(embedding: Float[Tensor, "number width"], count: int = 4) -> Float[Tensor, "number component"]:
    """Return the numbers' coordinates on the first principal components."""
    centred = (embedding - embedding.mean(dim=0)).double()
    u, s, _ = torch.linalg.svd(centred, full_matrices=False)
    return u[:, :count] * s[:count]


def circles(embedding: Float[Tensor, "number width"]) -> Circles:
    """Return how circular the embeddings are, and their frequencies."""
    each = tuple(map(circularity, components(embedding).T))
    spectrum = fourier_spectrum(embedding)
    order = sorted(range(len(spectrum)), key=lambda index: -spectrum[index])
    key = tuple(index + 1 for index in order if spectrum[index] > KEY_TIMES / len(spectrum))
    return Circles(sum(each) / len(each), each, spectrum, key)


def circularity(values: Float[Tensor, " number"]) -> float:
    """Return a component's largest share in one frequency, max_k 2 |sum v_t e^(2 pi i k t / p)|^2 / (p sum v^2).

    It is at most 1. The highest frequency of an even p, its own mirror image, counts once, not twice.
    """
    return min(1.0, float(wave_powers(values).max() / (values.double() ** 2).sum()))


def wave_powers(values: Float[Tensor, "number *width"]) -> Float[Tensor, "frequency *width"]:
    """Return the part of the sum of squares in each frequency from 1 to p // 2."""
    count = len(values)
    power = 2 * torch.fft.fft(values.double(), dim=0).abs()[1 : count // 2 + 1] ** 2 / count
    if count % 2 == 0:
        power[-1] /= 2
    return power


def strongest_frequency(values: Float[Tensor, " number"]) -> int:
    return 1 + int(wave_powers(values).argmax())


def circle_pair(places: Float[Tensor, "number component"]) -> tuple[int, int]:
    """Return the two components with the highest circularity, of the same frequency if possible."""
    strongest = [strongest_frequency(column) for column in places.T]
    score = [circularity(column) for column in places.T]
    pairs = list(itertools.combinations(range(places.shape[1]), 2))
    return max(pairs, key=lambda pair: (strongest[pair[0]] == strongest[pair[1]], score[pair[0]] + score[pair[1]]))


def fourier_spectrum(embedding: Float[Tensor, "number width"]) -> tuple[float, ...]:
    """Return each frequency's share of the variance."""
    power = wave_powers(embedding).sum(dim=1)
    return tuple((power / power.sum()).tolist())


def spectrum_overlap(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the share of variance that two spectra have at the same frequencies; 1 if they are equal."""
    return sum(map(min, first, second))


def without_frequencies(
    embedding: Float[Tensor, "number width"], frequencies: Iterable[int]
) -> Float[Tensor, "number width"]:
    """Remove the waves of these frequencies along the numbers."""
    waves = torch.fft.rfft(embedding.double(), dim=0)
    waves[list(frequencies)] = 0
    return torch.fft.irfft(waves, n=len(embedding), dim=0).to(embedding.dtype)


def gradient_symmetricity(model: Model, parameters: Parameters, modulus: int) -> float:
    """Return the mean cosine between the gradients of a logit with respect to the two tokens' embeddings."""
    require("embedding" in model.activations, f"{model.name} has no activation `embedding` to take gradients of")
    triples = torch.tensor(random_triples(modulus), device=device_of(parameters))
    leaf: list[Tensor] = []

    def make_leaf(name: str, value: Tensor) -> Tensor:
        if name == "embedding":
            leaf.append(value.detach().requires_grad_())
            return leaf[0]
        return value

    with torch.enable_grad():
        logits = model.unembed(parameters, hidden_with(model, parameters, triples[:, :2], make_leaf)[:, -1])
        (gradient,) = torch.autograd.grad(logits.gather(1, triples[:, 2:]).sum(), leaf)
    return float(torch.cosine_similarity(gradient[:, 0], gradient[:, 1], dim=1).mean())


def random_triples(modulus: int) -> list[tuple[int, int, int]]:
    """Return 100 triples. SOURCE: the first of all triples, shuffled by Python's generator with seed 42."""
    order = list(range(modulus**3))
    random.Random(TRIPLES_SEED).shuffle(order)
    return [(index // modulus**2, index // modulus % modulus, index % modulus) for index in order[:TRIPLES]]


@torch.no_grad()
def distance_irrelevance(model: Model, parameters: Parameters, modulus: int, logit: Logit = "right") -> float:
    """Return the share of the logits' spread left at fixed a - b: 1 if the difference does not matter."""
    device = device_of(parameters)
    pairs = torch.tensor(list(itertools.product(range(modulus), repeat=2)), device=device)
    total, distance = pairs.sum(dim=1) % modulus, (pairs[:, 0] - pairs[:, 1]) % modulus
    table = torch.zeros((modulus, modulus), dtype=torch.float64, device=device)
    for begin in range(0, len(pairs), SUMS_AT_ONCE):
        part = slice(begin, begin + SUMS_AT_ONCE)
        logits = model.unembed(parameters, model.hidden(parameters, pairs[part])[:, -1])[:, :modulus].double()
        right = logits.gather(1, total[part][:, None])
        if logit == "largest-wrong":
            wrong = logits.scatter(1, total[part][:, None], -torch.inf)
            table[total[part], distance[part]] = wrong.amax(dim=1)
        else:
            table[total[part], distance[part]] = right[:, 0]
    return float(table.std(dim=0, correction=0).mean() / table.std(correction=0))
