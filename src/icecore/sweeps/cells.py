"""A cell of a table or a point of a figure: one configuration, trained with several seeds."""

import functools
from dataclasses import dataclass, field
from typing import Any

from icecore.models import Model
from icecore.sweeps.names import CellName
from icecore.tasks import Task
from icecore.training import RunConfig, config_of
from icecore.training.identity import setting_of


@dataclass(frozen=True)
class Cell:
    """The runs behind one number. `training` overrides the preset's settings."""

    name: CellName
    task: Task
    model: Model
    trainable: str
    preset: str = "released"
    training: dict[str, Any] = field(default_factory=dict)
    is_analyzed: bool = False  # also measure activations, while the weights are in memory
    # Learning rates to choose from on validation items; (): the one chosen before, if any; None: its own.
    rates: tuple[float, ...] | None = None
    enough: float | None = None  # accuracy from which on neither other rates nor wider cells of its line are trained

    @property
    def label(self) -> str:
        return str(self.name)

    def config(self, seeds: tuple[int, ...], precision: str) -> RunConfig:
        return config_of(
            self.task, self.model, self.trainable, seeds, preset=self.preset, precision=precision, **self.training
        )

    @functools.cached_property
    def of_one_seed(self) -> RunConfig:
        """Return the config with seed 0 in fp32, for fields that depend on neither."""
        return self.config((0,), "fp32")

    @functools.cached_property
    def setting(self) -> str:
        """Return the id of the config without seeds and precision; cells of different tables may share runs."""
        return setting_of(self.of_one_seed.as_json())
