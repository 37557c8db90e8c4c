"""Start from a finished run: all of its parameters, its body, or its embeddings."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from icecore.errors import InputError, require
from icecore.models import (
    Half,
    Model,
    ModelDims,
    Parameters,
    initialize,
    names_of_half,
    settings_of_model,
    trained_names,
)
from icecore.models.roles import is_embedding
from icecore.store.tensors import digest
from icecore.training.config import RunConfig
from icecore.training.identity import setting_of
from icecore.training.population import Population
from icecore.training.run_folder import RunFolder
from icecore.training.start import FromRun, Taken

if TYPE_CHECKING:
    from icecore.training.run import TrainedRun

# How a model's own parameters begin; a body that is taken has begun already.
OF_INITIALIZATION = ("init", "gain", "position_init")
FLAGS: dict[Half, str] = {"all": "--from", "body": "--body-from", "embeddings": "--embeddings-from"}


@dataclass(frozen=True)
class Source:
    """A finished run, what to take from it, and how its seeds pair up: seed s starts from its seed s - shift."""

    take: Half
    config: RunConfig
    population: Population
    name: str  # in errors
    shift: int = 0
    rescale: str | None = None  # roles of embeddings to give the norms of the initial ones

    @property
    def seeds(self) -> tuple[int, ...]:
        """Return the seeds that pair up with the run's."""
        return tuple(seed + self.shift for seed in self.config.seeds)

    def parameters(self, seed: int) -> Parameters:
        """Return what a seed pairs up with."""
        return self.population.parameters(self.config.seeds.index(seed - self.shift))

    @property
    def positions(self) -> int | None:
        """Return the positions of the embeddings that are taken; those of new ones are the preset's."""
        return self.config.dims.n_positions if self.take != "body" else None

    def require_model(self, model: Model) -> None:
        """Raise if the run's body would compute something else in this model."""
        if self.take == "embeddings":
            return
        ours, theirs = model, self.config.model
        require(
            ours.name == theirs.name and ours.source_text == theirs.source_text,
            f"{self.name} has the model {theirs.name}, not {ours.name}: drop --model, or start from another run",
        )
        for setting in settings_of_model(type(theirs)):
            a, b = getattr(ours, setting), getattr(theirs, setting)
            if a != b and setting not in OF_INITIALIZATION:
                flag = f"--{setting.replace('_', '-')}"
                raise InputError(f"{self.name} has {setting} {b}, not {a}: drop {flag}, or start from another run")

    def require_shapes(self, model: Model, dims: ModelDims) -> None:
        """Raise unless the taken parameters fit this model, such as vocabulary and width of embeddings."""
        theirs = shapes_of(self.config.model, self.config.dims, self.take)
        ours = shapes_of(model, dims, self.take)
        for name in dict.fromkeys([*ours, *theirs]):
            if ours.get(name) != theirs.get(name):
                raise InputError(self.misfit(name, ours.get(name), theirs.get(name), dims))

    def misfit(self, name: str, ours: tuple[int, ...] | None, theirs: tuple[int, ...] | None, dims: ModelDims) -> str:
        """Say why a parameter cannot be taken, and what to do."""
        if ours is None or theirs is None:
            has, lacks = (self.name, "this model") if ours is None else ("this model", self.name)
            return f"{has} has {name}, and {lacks} has none: start from a run of the same kind of model"
        stored = self.config.dims
        shapes = f"{name} of {self.name} has the shape {in_words(theirs)}, this run needs {in_words(ours)}"
        if stored.vocab_size != dims.vocab_size and theirs[0] == stored.vocab_size:
            ways = "give the task the settings of that run, or take its body alone, with --body-from"
        elif stored.n_positions != dims.n_positions and theirs[-2:-1] == (stored.n_positions,):
            ways = f"add --positions {stored.n_positions}"
        else:
            ways = f"add --width {self.config.model.width}, or start from another run"
        return f"{shapes}: {ways}"

    def start(self, model: Model, dims: ModelDims, seeds: tuple[int, ...], precision: str) -> FromRun:
        """Return the start of a run with this model and these seeds."""
        self.require_model(model)
        self.require_shapes(model, dims)
        self.require_seeds(seeds)
        names = names_of_half(model, dims, self.take)
        each = [self.values_of(model, dims, seed, names) for seed in seeds]
        # A body that never trained equals what its seed gives, so it is not stored again.
        drawn = {name for name in names if all(is_drawn[name] for _, is_drawn in each)}
        values = {name: torch.stack([one[name] for one, _ in each]) for name in names if name not in drawn}
        digests = tuple(digest(one.items()) for one, _ in each)
        taken = Taken(seeds, values, digests, self.config.task.name, self.config.run_id)
        theirs = self.config.precision
        return FromRun(
            self.take,
            setting_of(self.config.as_json()),
            self.shift,
            self.rescale,
            None if theirs == precision else theirs,
            taken,
        )

    def values_of(
        self, model: Model, dims: ModelDims, seed: int, names: list[str]
    ) -> tuple[dict[str, Tensor], dict[str, bool]]:
        """Return what a seed takes, and whether each value equals the seed's own initialization."""
        stored, own = self.parameters(seed), initialize(model, dims, seed)
        specs = model.specs(dims)
        values = {name: stored[name].detach().cpu() for name in names}
        for name in trained_names(model, dims, self.rescale) if self.rescale else ():
            if name not in values or not is_embedding(specs[name]):
                raise InputError(f"--rescale acts on embeddings that are taken, such as unembed, not on {self.rescale}")
            if values[name].dim() > 1:
                values[name] = rescaled(values[name], own[name])
        return values, {name: torch.equal(value, own[name]) for name, value in values.items()}

    def require_seeds(self, seeds: tuple[int, ...]) -> None:
        missing = [seed for seed in seeds if seed - self.shift not in self.config.seeds]
        if missing:
            there = list(self.config.seeds)
            shift = seeds[0] - there[0] if len(seeds) <= len(there) else 0
            way_out = f"add --shift {shift}" if shift != self.shift and shift else "drop --seeds"
            pairs = "" if not self.shift else f", which pair with {list(self.seeds)}"
            raise InputError(f"{self.name} has the seeds {there}{pairs}, so {missing} have no start: {way_out}")


def rescaled(value: Tensor, like: Tensor) -> Tensor:
    """Return the value with the norm of another."""
    return value * (like.norm() / value.norm())


def shapes_of(model: Model, dims: ModelDims, half: Half) -> dict[str, tuple[int, ...]]:
    specs = model.specs(dims)
    return {name: specs[name].shape for name in names_of_half(model, dims, half)}


def in_words(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def source_of(
    from_run: "Path | str | TrainedRun | None" = None,
    body_from: "Path | str | TrainedRun | None" = None,
    embeddings_from: "Path | str | TrainedRun | None" = None,
    *,
    shift: int = 0,
    rescale: str | None = None,
    trust: bool = False,
) -> Source | None:
    """Return the run to start from, if any. Code that came with it needs `trust`."""
    named: tuple[tuple[Half, Path | str | TrainedRun | None], ...]
    named = ("all", from_run), ("body", body_from), ("embeddings", embeddings_from)
    chosen: list[tuple[Half, Path | str | TrainedRun]]
    chosen = [(take, run) for take, run in named if run is not None]
    flags = [FLAGS[take] for take, _ in chosen]
    require(len(chosen) <= 1, f"a run starts from one run: choose one of {', '.join(flags)}")
    if not chosen:
        given_too = {"--shift": shift != 0, "--rescale": bool(rescale), "--trust": trust}
        stray = [flag for flag, is_given in given_too.items() if is_given]
        require(not stray, f"{' and '.join(stray)} needs a run to start from: {', '.join(FLAGS.values())}")
        return None
    take, run = chosen[0]
    require(
        take != "body" or not rescale, "--body-from takes no embeddings, so there is nothing to rescale: drop --rescale"
    )
    require(type(shift) is int, f"shift must be a whole number, got {shift!r}")
    if isinstance(run, str | Path):
        config, population = RunFolder(run, trust).load(torch.device("cpu"))
        name = str(run)
    else:
        config, population, name = run.config, run.population, str(run.path or "the run")
    return Source(take, config, population, name, shift, rescale)
