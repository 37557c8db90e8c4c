"""Initial parameters of a run: drawn from its own seeds, or taken from another run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from icecore.errors import InputError, require
from icecore.models import HALVES, Half, Model, ModelDims, initialize, names_of_half
from icecore.seeding import derive_seed
from icecore.store.record_schema import PRECISIONS
from icecore.store.tensors import digest


@runtime_checkable
class Start(Protocol):
    """Source of a seed's initial parameters. It is part of the run's config, and so of its id."""

    def parameters(self, model: Model, dims: ModelDims, seed: int) -> dict[str, Tensor]:
        """Return the seed's initial parameters, on the CPU."""
        ...

    def as_json(self, seeds: Sequence[int], /) -> dict[str, Any] | None:
        """Return the config's entry for these seeds, or None to leave it out."""
        ...


@dataclass(frozen=True)
class FromSeed:
    """Initialization by the model's specs, from the run's own seeds. Left out of the config's JSON."""

    def parameters(self, model: Model, dims: ModelDims, seed: int) -> dict[str, Tensor]:
        return initialize(model, dims, seed)

    def as_json(self, _seeds: Sequence[int]) -> None:
        return None


@dataclass(frozen=True)
class Taken:
    """Parts taken from a run: values by name, stacked in the order of `seeds`, and where they come from.

    Values that equal a seed's own initialization, such as a body that never trained, are left out of `values`; the
    digests, one per seed, are of all.
    """

    seeds: tuple[int, ...]
    values: Mapping[str, Tensor]
    digests: tuple[str, ...]
    task: str
    run: str  # the name of its folder


@dataclass(frozen=True)
class FromRun:
    """Initial parameters from the final weights of another run; the rest comes from the run's own seeds.

    Its identity is the other run's setting: its config without seeds and precision. Seed s starts from seed s - shift.
    A start without `taken` has an identity only: that run may not exist yet.
    """

    take: Half
    setting: str
    shift: int = 0
    rescaled: str | None = None  # roles of embeddings that have the norms of the initial ones
    precision: str | None = None  # the other run's, if it is not this run's
    taken: Taken | None = field(default=None, compare=False, repr=False)

    def parameters(self, model: Model, dims: ModelDims, seed: int) -> dict[str, Tensor]:
        """Return the seed's initial parameters; raise if the source run's weights have changed."""
        taken = self.taken
        require(taken is not None, f"the run starts from the run of setting {self.setting}, which was not given")
        assert taken is not None
        found = initialize(model, dims, seed)
        if self.take == "body":
            found |= new_embeddings(model, dims, seed)
        index = taken.seeds.index(seed)
        found |= {name: value[index].clone() for name, value in taken.values.items()}
        ours = digest((name, found[name]) for name in names_of_half(model, dims, self.take))
        if ours != taken.digests[index]:
            raise InputError(
                f"seed {seed} does not start as it did: its initial parameters have SHA-256 {ours[:12]}, not "
                f"{taken.digests[index][:12]}; torch versions differ in their random numbers: use the version in "
                "result.json"
            )
        return found

    def as_json(self, seeds: Sequence[int]) -> dict[str, Any]:
        """Return the entry; `where` is not part of the run's id."""
        optional = {"shift": self.shift, "rescaled": self.rescaled, "precision": self.precision}
        entry = {"take": self.take, "setting": self.setting, **{key: each for key, each in optional.items() if each}}
        taken = self.taken
        if taken is not None:
            digests = [taken.digests[taken.seeds.index(seed)] for seed in seeds]
            entry["where"] = {"task": taken.task, "run": taken.run, "sha256": digests}
        return entry


def new_embeddings(model: Model, dims: ModelDims, seed: int) -> dict[str, Tensor]:
    """Return initial embeddings for a body that is taken from a run.

    The seed's own are those that the body may have trained with, and so learned to read.
    """
    drawn = initialize(model, dims, derive_seed(seed, "new embeddings") % 2**31)
    return {name: drawn[name] for name in names_of_half(model, dims, "embeddings")}


def start_of_json(entry: Mapping[str, Any], seeds: tuple[int, ...], values: Mapping[str, Tensor]) -> FromRun:
    """Return the start of a stored config, with the values from its folder."""
    where = entry["where"]
    texts = [entry["setting"], where["task"], where["run"], *where["sha256"]]
    is_right = (
        entry["take"] in HALVES
        and all(isinstance(text, str) for text in texts)
        and len(where["sha256"]) == len(seeds)
        and type(shift := entry.get("shift", 0)) is int
        and all(shift <= seed for seed in seeds)  # seed s starts from seed s - shift
        and isinstance(entry.get("rescaled"), str | None)
        and entry.get("precision") in (None, *PRECISIONS)
    )
    require(is_right, "its start is damaged: train the run again with --overwrite")
    taken = Taken(seeds, values, tuple(where["sha256"]), where["task"], where["run"])
    optional = {key: entry[key] for key in ("shift", "rescaled", "precision") if key in entry}
    return FromRun(entry["take"], entry["setting"], **optional, taken=taken)
