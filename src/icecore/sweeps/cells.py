"""A cell of a table, or a point of a figure: one setting, trained with several seeds."""

import functools
from dataclasses import dataclass, field
from typing import Any

from icecore.models import Model
from icecore.tasks import Task
from icecore.training import RunConfig, config_of
from icecore.training.identity import name_of

# What trains, by the paper's names.
TRAINED = {"Random": "embeddings", "Normal": "all"}
PARTS = {"U only": "unembed", "E only": "embed", "E_token & U": "token+unembed"}  # SOURCE: table 2
KINDS = {**TRAINED, **PARTS, "LSTM": "all"}


@dataclass(frozen=True)
class Name:
    """What a cell is called: "needle, Random 1024, linearized"."""

    task: str
    kind: str  # one of KINDS, or what else trains
    width: int | None = None  # the paper's; a laptop's model of another width may stand for it
    layers: int | None = None  # where they are not the same for all
    more: str = ""
    rate: float | None = None  # a learning rate other than the preset's

    @property
    def size(self) -> str:
        layers = "" if self.layers is None else f"x{self.layers}"
        return "" if self.width is None else f"{self.width}{layers}"

    @property
    def column(self) -> str:
        """Without the task: "Random 1024, linearized"."""
        return self.with_notes(f"{self.kind} {self.size}".rstrip())

    @property
    def line(self) -> str:
        """Without task and width: "Random, linearized"."""
        return self.with_notes(self.kind if self.layers is None else f"{self.kind} x{self.layers}")

    def with_notes(self, text: str) -> str:
        rate = "" if self.rate is None else f"lr {self.rate:g}"
        return ", ".join(filter(None, (text, self.more, rate)))

    def __str__(self) -> str:
        return f"{self.task}, {self.column}"


@dataclass(frozen=True)
class Cell:
    """What is trained for one number. `optimization` is what differs from the preset's."""

    name: Name
    task: Task
    model: Model
    trainable: str
    preset: str = "released"
    optimization: dict[str, Any] = field(default_factory=dict)
    is_looked_into: bool = False  # what is inside is measured too, while the weights are at hand

    @property
    def label(self) -> str:
        return str(self.name)

    def config(self, seeds: tuple[int, ...], precision: str) -> RunConfig:
        return config_of(
            self.task, self.model, self.trainable, seeds, preset=self.preset, precision=precision, **self.optimization
        )

    @functools.cached_property
    def of_one_seed(self) -> RunConfig:
        """For what is the same whatever the seeds and the precision."""
        return self.config((0,), "fp32")

    @functools.cached_property
    def setting(self) -> str:
        """Names the setting whatever the seed and the precision: cells of different tables may share their runs."""
        return setting_of(self.of_one_seed.as_json())


def setting_of(config: dict[str, Any]) -> str:
    kept = {key: value for key, value in config.items() if key not in ("seeds", "precision")}
    return name_of(kept)
