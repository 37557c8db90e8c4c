"""Probes: functions of a model, its parameters and test items, run at every evaluation."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor

from icecore.errors import InputError, require
from icecore.models import Model
from icecore.tasks import Batch
from icecore.training.population import Population
from icecore.user_code import reraise_user_error

ITEMS = 1_000  # most test items

# Maps a model, one seed's parameters and test items to a number, or to several by name.
Probe = Callable[[Model, dict[str, Tensor], Batch], float | Mapping[str, float]]


def named_probes(probes: Mapping[str, Probe] | Iterable[Probe]) -> dict[str, Probe]:
    """Return the probes by name, by default the function's own."""
    named: list[tuple[str, Any]] = (
        [(str(name), probe) for name, probe in probes.items()]
        if isinstance(probes, Mapping)
        else [(getattr(probe, "__name__", type(probe).__name__), probe) for probe in probes]
    )
    for name, probe in named:
        require(callable(probe), f"a probe must be a function of (model, parameters, batch); {name} is {probe!r}")
    found: dict[str, Probe] = dict(named)
    require(len(found) == len(named), "two probes have the same name: give them as a dict, {name: function}")
    return found


def probe_all(probes: Mapping[str, Probe], population: Population, test: Batch) -> dict[str, list[float]]:
    """Return the probes' numbers, one per seed. Probes get copies, so they cannot change the run."""
    found: dict[str, list[float]] = {}
    for index in range(len(population.seeds)):
        for name, probe in probes.items():
            copies = {key: value.clone() for key, value in population.parameters(index).items()}
            with reraise_user_error(f"the probe {name} failed"):
                given = probe(population.model, copies, test[:ITEMS])
            for key, value in finite_numbers(given, name).items():
                found.setdefault(key if key == name else f"{name}.{key}", []).append(value)
    uneven = [name for name, values in found.items() if len(values) != len(population.seeds)]
    require(not uneven, f"a probe must give the same numbers for every seed; {', '.join(uneven)} is missing for some")
    return found


def finite_numbers(given: Any, name: str) -> dict[str, float]:
    """Return a user function's result as finite numbers by name; a single number gets the function's name."""
    found = {}
    for key, value in (given if isinstance(given, Mapping) else {name: given}).items():
        try:
            found[str(key)] = float(value)
        except (TypeError, ValueError, RuntimeError):  # torch raises the last for a tensor of several numbers
            kind = type(value).__name__
            raise InputError(f"{name} must give a number, or a dict of them; it gave a {kind} for {key}") from None
        require(math.isfinite(found[str(key)]), f"{name} gave {value} for {key}, which is not finite")
    require(bool(found), f"{name} must give a number, or a dict of them; it gave none")
    return found
