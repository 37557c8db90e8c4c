"""Configuration of a run: task, model, initial parameters, phases and seeds. Frozen and hashed."""

import dataclasses
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from icecore.errors import InputError, require, require_kind, unknown_name
from icecore.models import MODELS, SHIPPED, Model, ModelDims, trained_names
from icecore.tasks import TASKS, Task, make_task
from icecore.training.identity import (
    COPIES,
    START,
    from_json,
    name_of,
    origin_of,
    require_unchanged,
    settings_of,
    settings_of_model,
)
from icecore.training.imitation_target import with_target
from icecore.training.precision import Precision
from icecore.training.rank import EmbeddingRank
from icecore.training.run_code import CODE_KEYS, RunCode
from icecore.training.start import FromRun, FromSeed, Start
from icecore.training.training_config import MOST, TrainingConfig

RANK = "embedding_rank"  # part of a config, if the rank of embeddings is limited
# Called with the model, its dims, what trains in each phase, and the seeds.
SizeCheck = Callable[[Model, ModelDims, list[str], tuple[int, ...]], None]
# Called with the config's entry, the model, its dims and the seeds.
StartReader = Callable[[Mapping[str, Any], Model, ModelDims, tuple[int, ...]], Start]


@dataclass(frozen=True)
class Phase:
    """Phase of training: trainable parameters and training settings. Each phase has a new optimizer."""

    trainable: str = "embeddings"
    training: TrainingConfig = TrainingConfig()

    def as_json(self) -> dict[str, Any]:
        return {"trainable": self.trainable, "optimization": dataclasses.asdict(self.training)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Phase":
        return Phase(value["trainable"], TrainingConfig(**value["optimization"]))


@dataclass(frozen=True)
class RunConfig:
    """Configuration of one population, whose members differ only in the seed of their initial weights."""

    task: Task
    model: Model
    dims: ModelDims
    phases: tuple[Phase, ...] = (Phase(),)
    seeds: tuple[int, ...] = (0,)
    data_seed: int = 0
    precision: str = "fp32"  # precision of the body: fp32, tf32 or bf16
    start: Start = FromSeed()
    rank: EmbeddingRank | None = None  # rank limit of the embeddings, if any

    def __post_init__(self) -> None:
        self.require_precision()
        known = [model.name for model in SHIPPED] if self.model.source_text is not None else MODELS
        if self.model.name in known and type(self.model) is not MODELS[self.model.name]:
            raise InputError(
                f"'{self.model.name}' is a model of icecore: {type(self.model).__name__} needs a name of its own"
            )
        require(len(self.seeds) > 0, "a run needs at least one seed")
        require(
            all(type(seed) is int and seed >= 0 for seed in self.seeds),
            f"seeds must be whole numbers of at least 0, got {list(self.seeds)[:5]}",
        )
        require(len(set(self.seeds)) == len(self.seeds), f"seeds must differ, got {list(self.seeds)}")
        require(type(self.data_seed) is int, f"data_seed must be a whole number, got {self.data_seed!r}")
        require_positions(self.dims.n_positions)
        require(
            self.dims.n_positions >= self.task.max_length,
            f"the model needs a position for each token: {self.task.name} has sequences of up to "
            f"{self.task.max_length}, positions is {self.dims.n_positions}",
        )
        self.require_phases()
        if self.rank is not None:
            self.require_rank(self.rank)

    def require_rank(self, rank: EmbeddingRank) -> None:
        """Raise unless all restricted embeddings are new, and train in every phase."""
        names = set(rank.names(self.model, self.dims))
        for phase in self.phases:
            frozen = names - set(trained_names(self.model, self.dims, phase.trainable))
            require(
                not frozen,
                f"--embedding-rank limits {', '.join(sorted(frozen))}, which does not train with {phase.trainable}: "
                "name others with --rank-of",
            )
        is_taken = isinstance(self.start, FromRun) and self.start.take != "body"
        require(not is_taken, "--embedding-rank limits new embeddings: take only the body of a run, with --body-from")

    def require_precision(self) -> None:
        if self.precision not in list(Precision):
            raise unknown_name("precision", self.precision, list(Precision))
        known = self.model.engine.precisions
        require(
            self.precision in known, f"{self.model.name} does not compute in {self.precision}: use {' or '.join(known)}"
        )

    def require_phases(self) -> None:
        require(len(self.phases) > 0, "a run needs at least one phase")
        for phase in self.phases:
            trained_names(self.model, self.dims, phase.trainable)
        batches = {phase.training.batch for phase in self.phases}
        require(len(batches) == 1, f"all phases must share one batch size, got {', '.join(map(str, sorted(batches)))}")
        count = self.task.train_count()
        if count is not None:
            require(
                self.training.batch <= count,
                f"batch must not exceed the {count} training items of {self.task.name}, got {self.training.batch}",
            )

    @property
    def trainable(self) -> str:
        """Return what trains in the last phase, usually the only one."""
        return self.phases[-1].trainable

    @property
    def training(self) -> TrainingConfig:
        """Return the training settings of the last phase, usually the only one."""
        return self.phases[-1].training

    @property
    def steps(self) -> int:
        """Return the total number of steps of all phases."""
        return sum(phase.training.steps for phase in self.phases)

    @property
    def trained_names(self) -> list[str]:
        """Return the parameters that train in any phase."""
        trained = {name for phase in self.phases for name in trained_names(self.model, self.dims, phase.trainable)}
        return [name for name in self.model.specs(self.dims) if name in trained]

    @property
    def parameter_counts(self) -> tuple[int, int]:
        """Return per seed the number of parameters that train in any phase, and of those that never do."""
        specs = self.model.specs(self.dims)
        trained = sum(specs[name].size for name in self.trained_names)
        frozen = sum(spec.size for spec in specs.values()) - trained
        if self.rank is not None:  # fewer numbers train, in their place
            limited = sum(specs[name].size for name in self.rank.names(self.model, self.dims))
            trained += sum(spec.size for spec in self.rank.specs(self.model, self.dims).values()) - limited
        return trained, frozen

    def initial(self, seed: int) -> dict[str, Tensor]:
        """Return a seed's initial parameters, on the CPU."""
        found = self.start.parameters(self.model, self.dims, seed)
        return found if self.rank is None else self.rank.start(self.model, self.dims, seed, found)

    def as_json(self) -> dict[str, Any]:
        first, *others = (phase.as_json() for phase in self.phases)
        start = self.start.as_json(self.seeds)
        return {
            "task": {
                "name": self.task.name,
                "version": self.task.version,
                **origin_of(self.task),
                **settings_of(self.task),
            },
            "model": {
                "name": self.model.name,
                **origin_of(self.model),
                **settings_of_model(self.model),
            },
            "positions": self.dims.n_positions,
            **({"phases": [first, *others]} if others else first),
            **({} if start is None else {START: start}),
            **({} if self.rank is None else {RANK: self.rank.as_json()}),
            "seeds": list(self.seeds),
            "data_seed": self.data_seed,
            "precision": self.precision,
        }

    @staticmethod
    def from_json(
        value: dict[str, Any],
        code: Mapping[str, RunCode] | None = None,
        check_sizes: SizeCheck | None = None,
        read_start: StartReader | None = None,
    ) -> "RunConfig":
        """Read a config. User-defined tasks and models are made from `code`, which was checked before.

        `check_sizes` is called before anything of the config's size is allocated; `read_start` reads the initial
        parameters of a run that starts from another one.
        """
        try:
            for kind in COPIES:
                is_ours = not any(key in value[kind] for key in CODE_KEYS)
                require(is_ours or kind in (code or {}), f"the run has its own {kind}: load it from its folder")
            task = task_of(value["task"], (code or {}).get("task"))
            model = model_of(value["model"], (code or {}).get("model"))
            require_positions(value["positions"])
            dims = ModelDims(task.vocab_size, value["positions"])
            phases = tuple(map(Phase.from_json, value.get("phases", [value])))
            seeds = tuple(value["seeds"])
            if check_sizes is not None:
                check_sizes(model, dims, [phase.trainable for phase in phases], seeds)
            start: Start = FromSeed()
            if START in value:
                require(read_start is not None, "the run starts from another run: load it from its folder")
                assert read_start is not None
                start = read_start(value[START], model, dims, seeds)
            return RunConfig(
                task=task,
                model=model,
                dims=dims,
                phases=phases,
                seeds=seeds,
                data_seed=value["data_seed"],
                precision=value["precision"],
                start=start,
                rank=EmbeddingRank.from_json(value[RANK]) if RANK in value else None,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"this is not the config of a run ({type(error).__name__}: {error})") from error

    @property
    def run_id(self) -> str:
        """Return the run's id, a hash of the config without paths."""
        return name_of(self.as_json())


def numbered(seeds: int | Iterable[int]) -> tuple[int, ...]:
    """Return the seeds; 3 means 0, 1 and 2."""
    return tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)


def require_positions(positions: object) -> None:
    require(
        type(positions) is int and positions <= MOST,
        f"positions must be a whole number of at most {MOST:,}, got {positions}",
    )


def task_of(value: Mapping[str, Any], code: RunCode | None) -> Task:
    settings = from_json(value["settings"]) | value.get("where", {})
    if code is None and value["name"] not in TASKS:
        raise unknown_name("task", str(value["name"]), TASKS)
    task_class = TASKS[value["name"]] if code is None else code.class_of(value, Task, "task")
    task = with_target(make_task(task_class, settings=settings))
    require_unchanged(value, task, "task")
    require(
        task.version == value["version"],
        f"the run was made with version {value['version']} of {task.name}, this is version {task.version}; train again",
    )
    return task


def model_of(value: Mapping[str, Any], code: RunCode | None) -> Model:
    name = value["name"]
    if code is None and name not in MODELS:
        raise InputError(
            f"the run has the model '{name}', which is none of {', '.join(MODELS)}: register its "
            "class in icecore.models.MODELS, in Python, before loading the run"
        )
    model_class = MODELS[name] if code is None else code.class_of(value, Model, "model")
    settings = from_json(value["settings"])
    hints = typing.get_type_hints(model_class) if code is None else {}
    for key, each in settings.items():
        require_kind(key, each, hints.get(key))
    model = model_class(**settings | value.get("where", {}))
    require_unchanged(value, model, "model")
    return model
