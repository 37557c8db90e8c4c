"""Initial parameters of a run, drawn from its own seeds."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from icecore.models import Model, ModelDims, initialize


@runtime_checkable
class Start(Protocol):
    """Source of a seed's initial parameters. It is part of the run's config, and so of its id."""

    def parameters(self, model: Model, dims: ModelDims, seed: int) -> dict[str, Tensor]:
        """Return the seed's initial parameters, on the CPU."""
        ...

    def as_json(self) -> dict[str, Any] | None:
        """Return the config's entry, or None to leave it out."""
        ...


@dataclass(frozen=True)
class FromSeed:
    """Initialization by the model's specs, from the run's own seeds. Left out of the config's JSON."""

    def parameters(self, model: Model, dims: ModelDims, seed: int) -> dict[str, Tensor]:
        return initialize(model, dims, seed)

    def as_json(self) -> None:
        return None
