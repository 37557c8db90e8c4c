"""The config of a run, from what a user gives; the preset gives the rest."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from icecore.errors import InputError, require, unknown_name
from icecore.models import Model
from icecore.tasks import Task, make_task
from icecore.training.config import Phase, RunConfig, numbered
from icecore.training.from_run import Source
from icecore.training.imitation_target import with_target
from icecore.training.presets import preset_dims, preset_training
from icecore.training.rank import ROLES, EmbeddingRank, RankBasis
from icecore.training.start import FromSeed, Start
from icecore.training.training_config import TrainingConfig


def checked_task(task: Task | str, preset: str = "released") -> Task:
    """Return the task, or make the one of this name; raise for anything else."""
    if isinstance(task, str):
        return make_task(task, preset)
    if isinstance(task, type) and issubclass(task, Task):
        raise InputError(f"give a task, not its class: {task.__name__}(...)")
    require(isinstance(task, Task), f"task must be a Task or the name of one, got {type(task).__name__}")
    return task


def checked_model(model: Model | None) -> Model:
    if isinstance(model, type) and issubclass(model, Model):
        raise InputError(f"give a model, not its class: {model.__name__}(width=64)")
    if not isinstance(model, Model):
        raise InputError(f"model must be a Model, such as icecore.Transformer(width=64), got {model!r}"[:200])
    return model


def checked_trainable(trainable: str | Sequence[str]) -> str:
    """Return the roles, joined by commas."""
    is_list = isinstance(trainable, Iterable) and not isinstance(trainable, str)
    names: list[Any] = list(trainable) if is_list else [trainable]
    require(
        bool(names) and all(isinstance(name, str) for name in names),
        f"trainable must be a name or a list of names, such as 'embeddings', got {trainable!r}",
    )
    return ",".join(names)


def listed_phases(phases: str | Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    if isinstance(phases, str):
        return parse_phases(phases)
    are_dicts = isinstance(phases, list | tuple) and all(isinstance(phase, Mapping) for phase in phases)
    require(are_dicts, f"phases must be 'embeddings:500,all:500' or a list of dicts, got {phases!r}"[:200])
    return phases


def parse_phases(text: str) -> list[dict[str, Any]]:
    """Read `embeddings:500,all:500:1e-4`; roles without a number belong to the phase that follows: `q,k:500`."""
    found: list[dict[str, Any]] = []
    roles: list[str] = []
    for word in text.split(","):
        role, *numbers = (part.strip() for part in word.split(":"))
        roles.append(role)
        if not numbers:
            continue
        try:
            phase = {"trainable": ",".join(roles), "steps": int(numbers[0])}
            phase |= {"lr": float(numbers[1])} if len(numbers) > 1 else {}
        except ValueError:
            phase = {}
        require(bool(phase) and len(numbers) <= 2, f"--phases takes WHAT:STEPS or WHAT:STEPS:RATE, got '{word}'")
        found.append(phase)
        roles = []
    require(bool(found) and not roles, f"--phases must end with a number of steps, as in embeddings:500, got '{text}'")
    return found


def config_of(
    task: Task,
    model: Model,
    trainable: str | Sequence[str] = "embeddings",
    seeds: int | Iterable[int] = 1,
    *,
    preset: str = "released",
    data_seed: int = 0,
    positions: int | None = None,
    precision: str = "fp32",
    phases: str | Sequence[Mapping[str, Any]] = (),
    source: Source | None = None,
    start: Start | None = None,
    embedding_rank: int | None = None,
    rank_basis: str = "random",
    rank_of: Sequence[str] = ROLES,
    **training: Any,
) -> RunConfig:
    """Return the checked config that `train` would train, from a `source`, a `start`, or the seeds."""
    is_plain = rank_basis == "random" and tuple(rank_of) == ROLES
    require(is_plain or embedding_rank is not None, "rank_basis and rank_of need a rank, as in --embedding-rank 8")
    rank = None
    if embedding_rank is not None:
        rank = EmbeddingRank(embedding_rank, cast(RankBasis, rank_basis), tuple(rank_of))
    task, dims = with_target(task), preset_dims(task, positions)
    if source is not None:
        start = source.start(model, dims, numbered(seeds), precision)
    base = vars(preset_training(task, model, preset, training.get("batch")))

    def phase_of(settings: Mapping[str, Any]) -> Phase:
        own = {**training, **settings}
        what = checked_trainable(own.pop("trainable", trainable))
        for name in sorted(own.keys() - base.keys()):
            raise unknown_name("training setting", name, ["seeds", *base])
        return Phase(what, TrainingConfig(**{**base, **own}))

    return RunConfig(
        task=task,
        model=model,
        dims=dims,
        phases=tuple(map(phase_of, listed_phases(phases) or [{}])),
        seeds=numbered(seeds),
        data_seed=data_seed,
        precision=precision,
        start=start or FromSeed(),
        rank=rank,
    )
