"""What a run is: a task, a model, what trains, how, and which seeds. Frozen, checked when made, hashed."""

import dataclasses
import functools
import hashlib
import inspect
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import icecore
from icecore.errors import InputError, require, require_choices, unknown_name
from icecore.models import MODELS, SHIPPED, Model, Sizes, find_model, has_fast_path, model_fields, trained_names
from icecore.own_files import hash_of
from icecore.store import ADDED_LATER, PLACES
from icecore.tasks import Task, make_task
from icecore.tasks.loading import setting_fields
from icecore.training.imitation_target import with_target
from icecore.training.precision import Precision

MOST = 10_000_000  # steps, or items of a batch: more would be silent for minutes, and then out of memory
COPIES = {"task": "task.py", "model": "model.py"}  # of a user's files, in the folder of a run


@dataclass(frozen=True)
class Optimization:
    """AdamW with warm-up and a schedule; SOURCE for the defaults: appendix D.3 and the released scripts."""

    steps: int = 10_000
    batch: int = 1_000
    lr: float = 1e-3
    weight_decay: float = 1e-3  # of matrices, embeddings among them; not of biases and norms
    warmup_steps: int = 500
    schedule: Literal["cosine", "constant"] = "cosine"
    clip: float = 1.0  # gradient norm of each seed

    def __post_init__(self) -> None:
        for field in ("steps", "batch", "warmup_steps"):
            value = getattr(self, field)
            require(isinstance(value, int), f"{field} must be a whole number, got {value!r}")
            require(value <= MOST, f"{field} must be at most {MOST:,}, got {value}")
            require(value >= 1 or field == "warmup_steps", f"{field} must be at least 1, got {value}")
        for field in ("lr", "weight_decay", "warmup_steps", "clip"):
            value = getattr(self, field)
            require(math.isfinite(value) and value >= 0, f"{field} must be at least 0 and finite, got {value}")
        require(self.clip > 0, f"clip must be above 0, got {self.clip}; a large one, such as 1e9, clips nothing")
        require_choices(self)

    @property
    def advice(self) -> str | None:
        """What hardly can be meant."""
        if self.warmup_steps < self.steps:
            return None
        reached = self.lr * (self.steps - 1) / self.warmup_steps
        return (
            f"all {self.steps:,} steps are within the warm-up of {self.warmup_steps:,}, so the rate ends at "
            f"{reached:.1e} of {self.lr:g}; give more --steps, or --warmup-steps {max(1, self.steps // 10)}"
        )

    def lr_at(self, step: int) -> float:
        """The learning rate of step 0, 1, ...; SOURCE: Hugging Face's cosine schedule, whose first step has rate 0."""
        if step < self.warmup_steps:
            return self.lr * step / self.warmup_steps
        if self.schedule == "constant":
            return self.lr
        done = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        return self.lr * 0.5 * (1 + math.cos(math.pi * done))


@dataclass(frozen=True)
class RunConfig:
    """One population: the same in everything but the seeds of the initial weights."""

    task: Task
    model: Model
    sizes: Sizes
    trainable: str = "embeddings"
    optimization: Optimization = Optimization()
    seeds: tuple[int, ...] = (0,)
    data_seed: int = 0
    precision: str = "fp32"  # of the body: fp32, tf32 or bf16

    def __post_init__(self) -> None:
        if self.precision not in list(Precision):
            raise unknown_name("precision", self.precision, list(Precision))
        known = [model.name for model in SHIPPED] if self.model.source_text is not None else MODELS
        if self.model.name in known and type(self.model) is not MODELS[self.model.name]:
            raise InputError(
                f"'{self.model.name}' is a model of icecore: {type(self.model).__name__} needs a name of its own"
            )
        require(
            self.precision != Precision.bf16 or has_fast_path(self.model),
            f"{self.model.name} computes as it is written, in float32: use --precision fp32 or tf32",
        )
        require(len(self.seeds) > 0, "a run needs at least one seed")
        require(
            all(type(seed) is int and seed >= 0 for seed in self.seeds),
            f"seeds must be whole numbers from 0 on, got {list(self.seeds)[:5]}",
        )
        require(len(set(self.seeds)) == len(self.seeds), f"seeds must differ, got {list(self.seeds)}")
        require(
            type(self.sizes.positions) is int and self.sizes.positions <= MOST,
            f"positions must be a whole number of at most {MOST:,}, got {self.sizes.positions}",
        )
        require(
            self.sizes.positions >= self.task.max_length,
            f"the model needs a position for each token: {self.task.name} has sequences of up to "
            f"{self.task.max_length}, positions is {self.sizes.positions}",
        )
        trained_names(self.model, self.sizes, self.trainable)
        train_set = self.task.train_set()
        if train_set is not None:
            require(
                self.optimization.batch <= len(train_set),
                f"batch must not exceed the {len(train_set)} training items of {self.task.name}, "
                f"got {self.optimization.batch}",
            )

    def as_json(self) -> dict[str, Any]:
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
                "settings": as_read(recorded(self.model, model_fields(type(self.model)))),
            },
            "positions": self.sizes.positions,
            "trainable": self.trainable,
            "optimization": dataclasses.asdict(self.optimization),
            "seeds": list(self.seeds),
            "data_seed": self.data_seed,
            "precision": self.precision,
        }

    @staticmethod
    def from_json(value: dict[str, Any], folder: Path | None = None) -> "RunConfig":
        """The config of such JSON. A user's task and model are loaded from the copies that a run's folder holds."""
        try:
            settings = from_read(value["task"]["settings"]) | value["task"].get("where", {})
            name = found_again(value["task"], "task", folder)
            task = with_target(make_task(name, settings=settings))
            require_unchanged(value["task"], task, name, "task")
            version = value["task"]["version"]
            if task.version != version:
                raise InputError(
                    f"the run was made with version {version} of {task.name}, this is version {task.version}; "
                    "train again"
                )
            return RunConfig(
                task=task,
                model=model_of(value["model"], folder),
                sizes=Sizes(task.vocab_size, value["positions"]),
                trainable=value["trainable"],
                optimization=Optimization(**value["optimization"]),
                seeds=tuple(value["seeds"]),
                data_seed=value["data_seed"],
                precision=value["precision"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"this is no config of a run ({type(error).__name__}: {error})") from error

    @property
    def run_id(self) -> str:
        """Names the run: any change of the config gives another one."""
        return name_of(self.as_json())


def numbered(seeds: int | Iterable[int]) -> tuple[int, ...]:
    """The seeds: 3 are 0, 1 and 2."""
    return tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)


def model_of(value: Mapping[str, Any], folder: Path | None) -> Model:
    name = found_again(value, "model", folder)
    if "file" not in value and name not in MODELS:
        raise InputError(
            f"the run has the model '{name}', which is none of {', '.join(MODELS)}: put its class into "
            "icecore.models.MODELS, in Python, before the run is loaded"
        )
    model = find_model(name)(**from_read(value["settings"]))
    require_unchanged(value, model, name, "model")
    return model


def as_read(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as JSON gives them back, tuples as lists, so that what is stored compares with what is made."""
    return json.loads(json.dumps(settings))


def from_read(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a task or model takes them: frozen, so what JSON has as a list was a tuple."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


def found_again(value: Mapping[str, Any], kind: str, folder: Path | None) -> str:
    """The name of a task or model; of a user's, the class in the copy of its file, or else where that lay."""
    if "file" not in value:
        return value["name"]
    copy = None if folder is None else folder / COPIES[kind]
    return f"{copy if copy is not None and copy.is_file() else value['file']}:{value['class']}"


def require_unchanged(value: Mapping[str, Any], made: Task | Model, name: str, kind: str) -> None:
    if value.get("source") != origin_of(made).get("source"):
        raise InputError(
            f"{name} is not the {kind} of the run: {'the file' if 'file' in value else 'the class'} has changed; put "
            "back what it was, or train again"
        )


def origin_of(made: Task | Model) -> dict[str, str | None]:
    """Of a user's, its class, a hash of its file, and where that lay, which is no part of a run's name.

    Of one that Python has registered, a hash of the class's own text, as far as it can be had.
    """
    if made.source_text is not None:
        return {"class": type(made).__name__, "source": hash_of(made.source_text), "file": made.source_file}
    is_ours = type(made).__module__.partition(".")[0] == icecore.__name__
    text = None if is_ours else text_of(type(made))
    return {} if text is None else {"source": hash_of(text)}


@functools.cache
def text_of(made: type) -> str | None:
    try:
        return inspect.getsource(made)
    except (OSError, TypeError):  # typed into an interpreter
        return None


def settings_of(task: Task) -> dict[str, dict[str, Any]]:
    """What a task is, and apart from it where its data lie, if they lie anywhere."""
    fields = setting_fields(type(task))
    settings = recorded(task, [field for field in fields if not field.metadata.get("where")])
    where = recorded(task, [field for field in fields if field.metadata.get("where")])
    return {"settings": as_read(settings)} | ({"where": as_read(where)} if where else {})


def recorded(made: Task | Model, fields: Sequence[dataclasses.Field]) -> dict[str, Any]:
    """The values of these fields, but for those that came later and have their default."""
    values = ((field, getattr(made, field.name)) for field in fields)
    return {
        field.name: value for field, value in values if value != field.default or not field.metadata.get(ADDED_LATER)
    }


def name_of(config: Mapping[str, Any]) -> str:
    """A hash of a config as JSON, whatever the place of its data."""
    return hashlib.sha256(json.dumps(without_place(config), sort_keys=True).encode()).hexdigest()[:12]


def without_place(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config as JSON, without where its data and a user's files lie."""
    return dict(config) | {
        part: {key: value for key, value in config.get(part, {}).items() if key not in PLACES} for part in COPIES
    }


def differences(first: dict[str, Any], second: dict[str, Any], prefix: str = "") -> list[str]:
    """Where two configs differ, as `lr: 0.001, not 0.01`."""
    found = []
    for key in sorted(first.keys() | second.keys()):
        a, b = first.get(key), second.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += differences(a, b, f"{prefix}{key}.")
        elif a != b:
            found.append(f"{prefix}{key} {a}, not {b}")
    return found
