"""Weights along the way: one file per step and seed, in the run's folder. They do not affect training."""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from icecore.errors import require
from icecore.models import trained_names
from icecore.store import remove_remains
from icecore.store.tensors import load_weights, require_shapes, save_tensors
from icecore.training.config import RunConfig
from icecore.training.population import Population

FOLDER, ENDING = "snapshots", ".safetensors"
MOST = 1_000  # per phase


def snapshot_steps(config: RunConfig, count: int | None) -> tuple[int, ...]:
    """Return the steps to save weights after: `count` per phase, closer together at its beginning, with its end.

    Without a count, only the ends. The end of the last phase is left out: it is the run's own weights.
    """
    require(count is None or 1 <= count <= MOST, f"snapshots must be 1 to {MOST:,}, got {count}")
    found: set[int] = set()
    begin, count = 0, count or 1
    for phase in config.phases:
        steps = phase.training.steps
        found |= {begin + max(1, round(steps * (index / count) ** 2)) for index in range(1, count + 1)}
        begin += steps
    return tuple(sorted(found - {config.steps}))


def trained_until(config: RunConfig, step: int) -> list[str]:
    """Return the parameters that have trained after `step` steps."""
    names: set[str] = set()
    begin = 0
    for phase in config.phases:
        if step > begin:
            names |= set(trained_names(config.model, config.dims, phase.trainable))
        begin += phase.training.steps
    return [name for name in config.model.specs(config.dims) if name in names]


def save_snapshot(folder: Path, config: RunConfig, step: int, population: Population) -> None:
    """Save what has trained so far, seed by seed."""
    place, names = folder / FOLDER, trained_until(config, step)
    require_inside(place)
    place.mkdir(exist_ok=True)
    for index, seed in enumerate(config.seeds):
        parameters = population.parameters(index)
        save_tensors(file_of(folder, step, seed), {name: parameters[name] for name in names}, {"step": step})


def require_inside(place: Path) -> None:
    """Raise if the folder of snapshots is a link: its files are written and deleted without asking."""
    require(not place.is_symlink(), f"{place} is a link, which may lead anywhere; put the folder itself there")


def file_of(folder: Path, step: int, seed: int) -> Path:
    return folder / FOLDER / f"{step:08d}-seed{seed}{ENDING}"


def snapshots_in(folder: Path) -> dict[int, set[int]]:
    """Return the seeds of each step's snapshot."""
    found: dict[int, set[int]] = {}
    for path in sorted((folder / FOLDER).glob(f"[0-9]*{ENDING}")):
        step, _, seed = path.name.removesuffix(ENDING).partition("-seed")
        if step.isdecimal() and seed.isdecimal():
            found.setdefault(int(step), set()).add(int(seed))
    return found


def forget_snapshots_after(folder: Path, step: int) -> None:
    """Delete half-written snapshots and those after the step that a run resumes from."""
    if not (folder / FOLDER).is_dir():
        return
    require_inside(folder / FOLDER)
    remove_remains(folder / FOLDER, ["*"])
    for later, seeds in snapshots_in(folder).items():
        for seed in seeds if later > step else ():
            file_of(folder, later, seed).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty
        (folder / FOLDER).rmdir()


def copy_snapshots(
    folder: Path,
    other: Path,
    config: RunConfig,
    seeds: Iterable[int],
    change: Callable[[str, Tensor], Tensor] = lambda _, value: value,
) -> None:
    """Copy the snapshots of these seeds into the folder of another run, with their values changed."""
    for step, there in snapshots_in(folder).items():
        for seed in there.intersection(seeds):
            values, notes = load_snapshot(folder, config, step, seed)
            (other / FOLDER).mkdir(exist_ok=True)
            save_tensors(file_of(other, step, seed), {name: change(name, each) for name, each in values.items()}, notes)


def load_snapshot(folder: Path, config: RunConfig, step: int, seed: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return what had trained by then, and the notes; raise unless it fits the config."""
    path, specs = file_of(folder, step, seed), config.model.specs(config.dims)
    way_out = f"delete the folder {FOLDER}, and train again with --overwrite"
    require_shapes(path, {name: specs[name].shape for name in trained_until(config, step)}, way_out)
    return load_weights(path)


def parameters_at(
    folder: Path, config: RunConfig, step: int, seed: int, device: torch.device | str = "cpu"
) -> dict[str, Tensor]:
    """Return a seed's parameters at a snapshot; step 0 is the start."""
    found = config.initial(seed)
    if step:
        stored, _ = load_snapshot(folder, config, step, seed)
        found |= {
            name: value.to(found[name].dtype) for name, value in stored.items()
        }  # extracted ones may have 16 bits
    return on(device, found)


def on(device: torch.device | str, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.to(device) for name, value in parameters.items()}
