"""Runs: from a task and a model to a trained population, and back from disk."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from icecore.errors import Advice, InputError, Interrupted, require
from icecore.models import MODELS, Model, is_shipped
from icecore.models.check import require_model
from icecore.tasks import TASKS, Batch, Task
from icecore.tasks.check import require_task
from icecore.training.config import Phase, RunConfig, numbered
from icecore.training.imitation_target import with_target
from icecore.training.loop import Intervals, ProgressCallback, train_run
from icecore.training.parallel import MicroBatches, Parallel
from icecore.training.population import Population
from icecore.training.precision import pick_precision
from icecore.training.presets import preset_dims, preset_training
from icecore.training.probes import Probe, named_probes
from icecore.training.run_folder import RunFolder
from icecore.training.stream import batch_sizes
from icecore.training.training_config import TrainingConfig


@dataclass(frozen=True)
class TrainedRun:
    """A trained population and its result."""

    config: RunConfig
    result: dict[str, Any]
    population: Population
    metrics: list[dict[str, Any]]  # step and each seed's loss, and where it was measured accuracy and test loss
    path: Path | None = None

    @property
    def accuracy(self) -> list[float]:
        """Test accuracy at the end of training, one a seed."""
        return self.result["accuracy"]

    def parameters(self, seed: int) -> dict[str, Tensor]:
        """Those of one of its seeds, to read."""
        return self.population.parameters(index_of(seed, self.config.seeds))


def index_of(seed: int, seeds: tuple[int, ...]) -> int:
    """The place of a seed among those of a run."""
    require(seed in seeds, f"the run has the seeds {list(seeds)}, not {seed}")
    return seeds.index(seed)


def train(
    task: Task,
    model: Model,
    trainable: str = "embeddings",
    seeds: int | Iterable[int] = 1,
    *,
    preset: str = "released",
    data_seed: int = 0,
    positions: int | None = None,
    out: Path | str | None = None,
    resume: bool | None = False,
    overwrite: bool = False,
    with_body: bool = False,
    device: str = "auto",
    precision: str = "auto",
    on_progress: ProgressCallback | None = None,
    probes: Mapping[str, Probe] | Iterable[Probe] = (),
    log_every: int | None = None,
    evaluate_every: int | None = None,
    checkpoint_every: int | None = None,
    accumulate: int = 1,
    phases: Sequence[Mapping[str, Any]] = (),
    **training: Any,
) -> TrainedRun:
    """Train `seeds` networks at once. Settings of the training (steps, batch, lr, ...) default to the preset's.

    With `out`, the run is saved under it, in a folder named by its config; a complete run is loaded, not repeated.
    `resume` continues an unfinished run of this config; None does so if there is one. `accumulate` computes every
    batch in so many parts, which takes less memory and changes nothing else. Started by `torchrun`, each process
    computes its part of every batch, and the first one saves the run.

    `phases` train different parts one after the other, each with an optimizer of its own:
    `[{"trainable": "embeddings", "steps": 500}, {"trainable": "all", "steps": 500, "lr": 1e-4}]`. `probes` are
    functions of (model, parameters, test items) whose numbers are recorded with every evaluation, in `metrics`.
    """
    where = pick_device(device)
    config = config_of(
        task,
        model,
        trainable,
        seeds,
        preset=preset,
        data_seed=data_seed,
        positions=positions,
        precision=pick_precision(precision, where, model),
        phases=phases,
        **training,
    )
    for phase in config.phases:
        if phase.training.advice is not None:
            warnings.warn(phase.training.advice, Advice, stacklevel=2)
    intervals = Intervals.of(config.steps, log_every, evaluate_every, checkpoint_every)
    by_name = named_probes(probes)
    return train_config(config, where, intervals, out, resume, overwrite, with_body, on_progress, accumulate, by_name)


def train_config(
    config: RunConfig,
    device: torch.device,
    intervals: Intervals,
    out: Path | str | None = None,
    resume: bool | None = False,
    overwrite: bool = False,
    with_body: bool = False,
    on_progress: ProgressCallback | None = None,
    accumulate: int = 1,
    probes: Mapping[str, Probe] | None = None,
) -> TrainedRun:
    """Train from a finished RunConfig."""
    require(not (resume and overwrite), "--resume goes on, --overwrite starts again: choose one of them")
    require_sound(config)
    micro = MicroBatches(Parallel.join(device), accumulate)
    for batch in batch_sizes(config.task.train_set(), config.training.batch):
        micro.rows_of(batch)  # or say that it cannot be divided, before there is a folder
    if out is None:
        return TrainedRun(config, *train_run(config, device, intervals, None, with_body, on_progress, micro, probes))
    require_loadable(config)
    folder = RunFolder.of(config, Path(out))
    if folder.is_complete and not overwrite:
        if probes:
            warnings.warn(f"{folder.path} is complete, so its probes are not run; overwrite it", Advice, stacklevel=3)
        return replace(kept(folder, device), config=config)
    if not micro.parallel.is_first:
        return TrainedRun(
            config, *train_run(config, device, intervals, None, with_body, None, micro, probes), folder.path
        )
    try:
        with folder.begun(config, resume, overwrite):
            if folder.is_complete:  # another process was quicker
                return replace(kept(folder, device), config=config)
            trained = train_run(config, device, intervals, folder, with_body, on_progress, micro, probes)
            return TrainedRun(config, *trained, folder.path)
    except Interrupted as error:
        flag = "" if resume is None else " and --resume"
        raise Interrupted(f"{error}; go on with the same command{flag}") from None


def config_of(
    task: Task,
    model: Model,
    trainable: str = "embeddings",
    seeds: int | Iterable[int] = 1,
    *,
    preset: str = "released",
    data_seed: int = 0,
    positions: int | None = None,
    precision: str = "fp32",
    phases: Sequence[Mapping[str, Any]] = (),
    **training: Any,
) -> RunConfig:
    """Return the checked config of what `train` would train."""
    task = with_target(task)
    base = vars(preset_training(task, model, preset, training.get("batch")))

    def phase_of(settings: Mapping[str, Any]) -> Phase:
        own = {**training, **settings}
        what = own.pop("trainable", trainable)
        unknown = own.keys() - base.keys()
        require(not unknown, f"unknown setting of the training: {', '.join(sorted(unknown))}")
        return Phase(what, TrainingConfig(**{**base, **own}))

    return RunConfig(
        task=task,
        model=model,
        dims=preset_dims(task, positions),
        phases=tuple(map(phase_of, phases or [{}])),
        seeds=numbered(seeds),
        data_seed=data_seed,
        precision=precision,
    )


def load(path: Path | str, device: str = "auto") -> TrainedRun:
    """A finished run: what was trained around its frozen body, which is made again from its seeds and checked."""
    return kept(RunFolder(Path(path)), pick_device(device))


def kept(folder: RunFolder, device: torch.device) -> TrainedRun:
    config, population = folder.load(device)
    return TrainedRun(config, folder.result(), population, list(folder.metrics()), folder.path)


def require_sound(config: RunConfig) -> None:
    """A user's task and model keep their contracts."""
    task = config.task
    if type(task) is not TASKS.get(task.name):
        file = "" if task.source_file is None else f"{task.source_file}:"
        require_task(lambda: task, f"{file}{type(task).__name__}")
    if not is_shipped(config.model):
        may_look_ahead = not answers_come_later(config.task.test_set())
        require_model(config.model, config.dims, config.task.max_length, may_look_ahead)


def answers_come_later(test: Batch) -> bool:
    """Whether a scored position may have its answer after it, so that a model that looked ahead would read it there."""
    columns = torch.arange(test.scored.shape[1])
    last = torch.where(test.scored, columns, -1).max(dim=1).values
    later = test.tokens[columns > last[:, None]]
    return bool((test.scored.sum(dim=1) > 1).any()) or len(later.unique()) > 1


def require_loadable(config: RunConfig) -> None:
    """A run that is kept has to be loaded by whoever has its folder alone."""
    task, model = config.task, config.model
    require(
        task.source_text is not None or type(task) is TASKS.get(task.name),
        f"a run that is kept must find {type(task).__name__} again: put the class into a file of its own and make the "
        f"task with icecore.tasks.make_task('FILE.py:{type(task).__name__}'), or train without out",
    )
    require(
        model.source_text is not None or model.name in MODELS,
        f"a run that is kept must find {type(model).__name__} again: make it from its file, with "
        f"icecore.models.find_model('FILE.py:{type(model).__name__}'), or register it, with "
        f"icecore.models.MODELS['{model.name}'] = {type(model).__name__}, or train without out",
    )


def pick_device(name: str) -> torch.device:
    """`auto` is the GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda needs a CUDA device, and torch finds none; use --device cpu or auto")
    require(name in ("cpu", "cuda"), f"device must be auto, cpu or cuda, got '{name}'")
    return torch.device(name)
