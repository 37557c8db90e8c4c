"""A cell of a table, or a point of a figure: one setting, trained with several seeds."""

import functools
from dataclasses import dataclass, field
from typing import Any

from icecore.models import Model
from icecore.sweeps.names import CellName
from icecore.tasks import Task
from icecore.training import RunConfig, config_of
from icecore.training.identity import name_of


@dataclass(frozen=True)
class Cell:
    """What is trained for one number. `training` is what differs from the preset's."""

    name: CellName
    task: Task
    model: Model
    trainable: str
    preset: str = "released"
    training: dict[str, Any] = field(default_factory=dict)
    is_looked_into: bool = False  # what is inside is measured too, while the weights are at hand

    @property
    def label(self) -> str:
        return str(self.name)

    def config(self, seeds: tuple[int, ...], precision: str) -> RunConfig:
        return config_of(
            self.task, self.model, self.trainable, seeds, preset=self.preset, precision=precision, **self.training
        )

    @functools.cached_property
    def of_one_seed(self) -> RunConfig:
        """The config with seed 0 in fp32, for what depends on neither."""
        return self.config((0,), "fp32")

    @functools.cached_property
    def setting(self) -> str:
        """Names the setting whatever the seed and the precision: cells of different tables may share their runs."""
        return setting_of(self.of_one_seed.as_json())


def setting_of(config: dict[str, Any]) -> str:
    kept = {key: value for key, value in config.items() if key not in ("seeds", "precision")}
    return name_of(kept)
