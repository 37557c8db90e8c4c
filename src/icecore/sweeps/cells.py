"""A cell of a table or a point of a figure: one configuration, trained with several seeds."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from icecore.models import Half, Model
from icecore.sweeps.names import CellName
from icecore.tasks import Task
from icecore.training import RunConfig, config_of
from icecore.training.identity import setting_of
from icecore.training.start import FromRun


@dataclass(frozen=True)
class Origin:
    """The cell whose finished runs another cell starts from, seed by seed, and what it takes of them."""

    cell: "Cell"
    take: Half
    rescale: str | None = None  # roles of embeddings to give the norms of the initial ones

    @property
    def start(self) -> FromRun:
        """Return the identity of the start; the weights are needed only to train."""
        return FromRun(self.take, self.cell.setting, rescaled=self.rescale)


@dataclass(frozen=True)
class Tracking:
    """Measurements of a thaw: the number of snapshots and of test items, and the cell whose runs stand beside it."""

    snapshots: int
    items: int
    beside: "Cell | None" = None  # full training from the same initial weights


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
    origin: Origin | None = None  # where its runs start, if not from their seeds
    tracking: Tracking | None = None  # also measure whether training the body refined or replaced the mechanism
    # Learning rates to choose from on validation items; (): the one chosen before, if any; None: its own.
    rates: tuple[float, ...] | None = None
    enough: float | None = None  # accuracy from which on neither other rates nor wider cells of its line are trained

    @property
    def label(self) -> str:
        return str(self.name)

    def config(self, seeds: tuple[int, ...], precision: str) -> RunConfig:
        start = None if self.origin is None else self.origin.start
        return config_of(
            self.task,
            self.model,
            self.trainable,
            seeds,
            preset=self.preset,
            precision=precision,
            start=start,
            **self.training,
        )

    @functools.cached_property
    def of_one_seed(self) -> RunConfig:
        """Return the config with seed 0 in fp32, for fields that depend on neither."""
        return self.config((0,), "fp32")

    @functools.cached_property
    def setting(self) -> str:
        """Return the id of the config without seeds and precision; cells of different tables may share runs."""
        return setting_of(self.of_one_seed.as_json())

    @property
    def needs(self) -> "tuple[Cell, ...]":
        """Return the cells whose finished runs its own runs need."""
        origin = () if self.origin is None else (self.origin.cell,)
        beside = () if self.tracking is None or self.tracking.beside is None else (self.tracking.beside,)
        return origin + beside


def with_needed(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells, each after those that it needs; a needed one is there once."""
    found: list[Cell] = []
    for cell in cells:
        known = {each.setting for each in found} if cell.needs else set()
        found += [each for each in with_needed(cell.needs) if each.setting not in known]
        found.append(cell)
    return found
