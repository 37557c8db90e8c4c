"""Sizes of a stored run: config, weights and start must agree before anything is allocated."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from icecore.errors import InputError, require
from icecore.models import Half, Model, ModelDims, names_of_half, trained_names
from icecore.store.tensors import shapes_of

GIB = 2**30
COPIES_IN_MEMORY = 2 * 4  # bytes per parameter: each seed's initial values in float32, then all seeds stacked


def require_fit(
    weights: Path, model: Model, dims: ModelDims, trainables: Iterable[str], seeds: tuple[int, ...]
) -> None:
    """Raise unless the weights' header has the parameters that trained, all of the config's shapes."""
    specs, found = model.specs(dims), shapes_of(weights)
    trained = {name for trainable in trainables for name in trained_names(model, dims, trainable)}
    wanted = {name: (len(seeds), *spec.shape) for name, spec in specs.items()}
    for name in (*sorted(trained), *found):
        if name not in wanted or found.get(name) != wanted[name]:
            shape = f"is not of shape {wanted[name]}" if name in wanted else "is no parameter of the model"
            raise InputError(
                f"{weights} does not fit config.json: {name} {shape}; one of them was changed: train again with "
                "--overwrite"
            )
    require_memory(sum(spec.size for spec in specs.values()) * len(seeds))


def require_start_fits(file: Path, model: Model, dims: ModelDims, half: Half, seeds: tuple[int, ...]) -> None:
    """Raise unless the header of a run's start has parameters that were taken, all of the config's shapes."""
    specs, names = model.specs(dims), names_of_half(model, dims, half)
    for name, shape in shapes_of(file).items():
        if name not in names or shape != (len(seeds), *specs[name].shape):
            raise InputError(f"{file} does not fit config.json: {name} differs; train again with --overwrite")


def require_memory(parameters: int) -> None:
    """Raise if a population of this many parameters cannot be loaded on this machine."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return
    needed = COPIES_IN_MEMORY * parameters
    require(
        needed <= memory,
        f"the run has {parameters:,} parameters and needs {needed / GIB:,.1f} GiB to load, and this machine has "
        f"{memory / GIB:,.1f} GiB: load it on a larger one, or extract some of its seeds there",
    )


def seeds_of(row: Mapping[str, object], chosen: list[int], seeds: int) -> dict[str, object]:
    """Return a row of metrics, a result or notes with only these of its seeds."""
    for name, value in row.items():
        require(
            not isinstance(value, list) or len(value) == seeds,
            f"{name} does not have one entry for each of {seeds} seeds; the run is damaged: train it again",
        )
    return {
        name: [value[index] for index in chosen] if isinstance(value, list) else value for name, value in row.items()
    }
