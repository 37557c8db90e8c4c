"""Digests of the frozen bodies: noted beside the weights, and compared with the bodies that seeds regenerate."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from icecore.errors import require
from icecore.store.tensors import AGAIN, digest, noted
from icecore.training.population import Population


def noted_digests(weights: Path, notes: Mapping[str, Any], seeds: tuple[int, ...]) -> list[str]:
    """Return the digest of each seed's frozen body from the notes of the weights."""
    digests = noted(weights, notes, "body_sha256", list)
    require(len(digests) == len(seeds), f"{weights} has {len(digests)} seeds, config.json has {len(seeds)}")
    require(
        all(isinstance(each, str) for each in digests), f"{weights} is damaged: body_sha256 holds no texts; {AGAIN}"
    )
    return digests


def body_digests(population: Population, trained: Collection[str]) -> list[str]:
    """Return the SHA-256 of each seed's parameters that never trained."""
    frozen = {name: value for name, value in population.frozen.items() if name not in trained}
    return [digest((name, value[index]) for name, value in frozen.items()) for index in range(len(population.seeds))]
