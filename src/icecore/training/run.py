"""Train a run, or load one from disk."""

import contextlib
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from icecore.errors import Advice, InputError, Interrupted, require
from icecore.models import MODELS, Model, is_shipped
from icecore.models.check import require_model
from icecore.tasks import TASKS, Batch, Task
from icecore.tasks.check import require_task
from icecore.training.config import RunConfig
from icecore.training.from_run import source_of
from icecore.training.loop import train_run
from icecore.training.make_config import checked_model, checked_task, config_of
from icecore.training.memory import require_memory
from icecore.training.notebook import notebook_progress
from icecore.training.parallel import MicroBatches, Parallel
from icecore.training.population import Population
from icecore.training.precision import pick_precision
from icecore.training.probes import Probe, named_probes
from icecore.training.progress import CHECKPOINT_MINUTES, Intervals, ProgressCallback
from icecore.training.rank import ROLES
from icecore.training.run_code import remember_texts
from icecore.training.run_folder import RunFolder
from icecore.training.snapshots import require_room, snapshot_steps, snapshots_in
from icecore.training.stored_config import texts_of
from icecore.training.stream import batch_sizes
from icecore.training.summary import in_html, title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class TrainedRun:
    """Trained population of seeds and its result."""

    config: RunConfig
    result: dict[str, Any]
    population: Population
    metrics: list[dict[str, Any]]  # step and each seed's loss and, where measured, accuracy, test loss and probes
    path: Path | None = None

    def __repr__(self) -> str:
        seeds = len(self.config.seeds)
        accuracy = ", ".join(f"{value:.3f}" for value in self.accuracy[:5]) + (", ..." if seeds > 5 else "")
        return f"TrainedRun({title_of(self.config)}, {seeds} seed{'s' * (seeds > 1)}: accuracy {accuracy})"

    def _repr_html_(self) -> str:
        """Show the run in a notebook."""
        return in_html(self)

    @property
    def accuracy(self) -> list[float]:
        """Return the test accuracy at the end of training, one per seed."""
        return self.result["accuracy"]

    def parameters(self, seed: int) -> dict[str, Tensor]:
        """Return one seed's parameters. Do not modify them."""
        return self.population.parameters(index_of(seed, self.config.seeds))

    @torch.no_grad()
    def predict(self, prompt: str | Sequence[int], top: int = 1) -> dict[int, list[tuple[str, float]]]:
        """Return each seed's `top` most likely next tokens after a prompt, as words, with their probabilities.

        The prompt is in the task's notation, `"a 1 b 2 a"`, or a list of tokens.
        """
        task = self.config.task
        tokens = task.read(prompt) if isinstance(prompt, str) else task.checked_prompt(tuple(prompt))
        found: dict[int, list[tuple[str, float]]] = {}
        for seed in self.config.seeds:
            parameters = self.parameters(seed)
            batch = torch.tensor([list(tokens)], device=self.population.device)
            chances = self.config.model.logits(parameters, batch)[0, -1].softmax(dim=-1)
            best = chances.topk(min(top, len(chances)))
            words = task.answer_words(best.indices.tolist())
            found[seed] = list(zip(words, best.values.tolist(), strict=True))
        return found

    def plot(self) -> "Figure":
        """Plot training loss and measured test accuracy against the step, one line per seed."""
        from icecore.training.curves import draw_curves

        return draw_curves(self.metrics, self.config.seeds, repr(self))


def index_of(seed: int, seeds: tuple[int, ...]) -> int:
    """Return the index of a seed among those of a run."""
    require(seed in seeds, f"the run has the seeds {list(seeds)}, not {seed}")
    return seeds.index(seed)


def train(
    task: Task | str,
    model: Model | None = None,
    trainable: str | Sequence[str] = "embeddings",
    seeds: int | Iterable[int] | None = None,
    *,
    from_run: "Path | str | TrainedRun | None" = None,
    body_from: "Path | str | TrainedRun | None" = None,
    embeddings_from: "Path | str | TrainedRun | None" = None,
    shift: int = 0,
    rescale: str | None = None,
    trust: bool = False,
    preset: str = "released",
    data_seed: int = 0,
    positions: int | None = None,
    embedding_rank: int | None = None,
    rank_basis: str = "random",
    rank_of: Sequence[str] = ROLES,
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
    checkpoint_minutes: float = CHECKPOINT_MINUTES,
    snapshots: int | None = None,
    accumulate: int = 1,
    force: bool = False,
    phases: Sequence[Mapping[str, Any]] = (),
    **training: Any,
) -> TrainedRun:
    """Train `seeds` networks at once, by default 1. Training settings (steps, batch, lr, ...) default to the preset's.

    `task` is a task or the name of a built-in one. `trainable` lists roles, as a list or separated by commas; all
    other parameters are frozen. With `out`, the run is saved there, in a folder named by its config; a complete run is
    loaded, not repeated. `resume` continues an unfinished run of this config; None does so if there is one.
    `accumulate` splits every batch into this many parts, which saves memory and changes nothing else. Under
    `torchrun`, each process computes its part of every batch, and rank 0 saves the run. A run that needs more memory
    than is free is refused, unless with `force`.

    `from_run`, `body_from` and `embeddings_from` start from a finished run, or its folder: from all its parameters, its
    body with new embeddings, or its embeddings on this run's own body. Seed s starts from its seed s - `shift`; seeds,
    and the model of a body, default to that run's. `rescale="unembed"` gives it its initial norm. Code that came
    with that run needs `trust`.

    `embedding_rank` limits the embeddings of the roles `rank_of`: in a basis that is random, learned or of the body, or
    to a random subspace of all of them with as many numbers.

    `phases` train different parts in sequence, each with a new optimizer:
    `[{"trainable": "embeddings", "steps": 500}, {"trainable": "all", "steps": 500, "lr": 1e-4}]`. `probes` are
    functions of (model, parameters, test items); `metrics` records their numbers at every evaluation. `snapshots` saves
    the weights this many times per phase, for `icecore track`.
    """
    where = pick_device(device)
    source = source_of(from_run, body_from, embeddings_from, shift=shift, rescale=rescale, trust=trust)
    if source is not None:
        model = source.model if model is None else model
        seeds = source.seeds if seeds is None else seeds
        positions = source.positions if positions is None else positions
    task, model = checked_task(task, preset), checked_model(model)
    config = config_of(
        task,
        model,
        trainable,
        1 if seeds is None else seeds,
        preset=preset,
        data_seed=data_seed,
        positions=positions,
        source=source,
        embedding_rank=embedding_rank,
        rank_basis=rank_basis,
        rank_of=rank_of,
        precision=pick_precision(precision, where, model),
        phases=phases,
        **training,
    )
    is_there = out is not None and RunFolder.of(config, Path(out)).is_complete and not overwrite
    for phase in config.phases:
        if phase.training.advice is not None and not is_there:
            warnings.warn(phase.training.advice, Advice, stacklevel=2)
    require(snapshots is None or out is not None, "snapshots are saved with the run: give out, or drop snapshots")
    chosen = snapshot_steps(config, snapshots)
    intervals = Intervals.of(config.steps, log_every, evaluate_every, checkpoint_every, checkpoint_minutes, chosen)
    by_name = named_probes(probes)
    with notebook_progress(title_of(config)) if on_progress is None else contextlib.nullcontext(on_progress) as report:
        return train_config(
            config, where, intervals, out, resume, overwrite, with_body, report, accumulate, by_name, force
        )


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
    force: bool = False,
) -> TrainedRun:
    """Train from a finished RunConfig."""
    require(not (resume and overwrite), "--resume continues, --overwrite starts again: choose one of them")
    if not force and (out is None or overwrite or not RunFolder.of(config, Path(out)).is_complete):
        require_memory(config, device, accumulate * int(os.environ.get("WORLD_SIZE", "1")))
    require_sound(config)
    micro = MicroBatches(Parallel.join(device), accumulate)
    for batch in batch_sizes(config.task.train_set(), config.training.batch):
        micro.rows_of(batch)  # raises, before a folder is created, if it cannot be divided
    if out is None:
        return TrainedRun(config, *train_run(config, device, intervals, None, with_body, on_progress, micro, probes))
    require_loadable(config)
    folder = RunFolder.of(config, Path(out))
    if folder.is_complete and not overwrite:
        if probes:
            warnings.warn(f"{folder.path} is complete, so its probes are not run; overwrite it", Advice, stacklevel=3)
        if set(intervals.snapshots) - set(snapshots_in(folder.path)):
            text = f"{folder.path} is complete, and has not all of these snapshots; overwrite it"
            warnings.warn(text, Advice, stacklevel=3)
        return load_run(folder, device, config)
    require_room(folder.path, config, intervals.snapshots)
    remember_texts(texts_of(config))
    if not micro.parallel.is_first:
        return TrainedRun(
            config, *train_run(config, device, intervals, None, with_body, None, micro, probes), folder.path
        )
    try:
        with folder.begun(config, resume, overwrite):
            if folder.is_complete:  # another process finished it first
                return load_run(folder, device, config)
            trained = train_run(config, device, intervals, folder, with_body, on_progress, micro, probes)
            return TrainedRun(config, *trained, folder.path)
    except Interrupted as error:
        flag = "" if resume is None else " and --resume"
        raise Interrupted(f"{error}; continue with the same command{flag}", error.number) from None


def load(path: Path | str, device: str = "auto", trust: bool = False) -> TrainedRun:
    """Load a finished run; its frozen body is regenerated from its seeds and checked.

    A run of a user's task or model has its code in its folder. It is executed if you trained with it on this machine;
    otherwise only with `trust`. Read it first.
    """
    return load_run(RunFolder(Path(path), trust), pick_device(device))


def load_run(folder: RunFolder, device: torch.device, config: RunConfig | None = None) -> TrainedRun:
    """Load a finished run; with a `config`, that config's, without executing anything in the folder."""
    result = folder.result() if folder.is_complete else {}
    config, population = folder.load(device, config)
    seeds = list(config.seeds)
    require(result["seeds"] == seeds, f"the result in {folder.path} is of other seeds than its config: train again")
    return TrainedRun(config, result, population, list(folder.metrics()), folder.path)


def require_sound(config: RunConfig) -> None:
    """Validate a user's task and model."""
    task = config.task
    if type(task) is not TASKS.get(task.name):
        file = "" if task.source_file is None else f"{task.source_file}:"
        require_task(lambda: task, f"{file}{type(task).__name__}")
    if not is_shipped(config.model):
        may_look_ahead = not answers_come_later(config.task.test_set())
        require_model(config.model, config.dims, config.task.max_length, may_look_ahead)


def answers_come_later(test: Batch) -> bool:
    """Tell whether answers may follow a scored position, where a model that looks ahead could read them."""
    columns = torch.arange(test.scored.shape[1])
    last = torch.where(test.scored, columns, -1).max(dim=1).values
    later = test.tokens[columns > last[:, None]]
    return bool((test.scored.sum(dim=1) > 1).any()) or len(later.unique()) > 1


def require_loadable(config: RunConfig) -> None:
    """Raise unless a saved run could be loaded from its folder alone."""
    task, model = config.task, config.model
    require(
        task.source_text is not None or type(task) is TASKS.get(task.name),
        f"a saved run must be able to load {type(task).__name__}: put the class into its own file and make the "
        f"task with icecore.tasks.make_task('FILE.py:{type(task).__name__}'), or save nothing, with out=None",
    )
    require(
        model.source_text is not None or model.name in MODELS,
        f"a saved run must be able to load {type(model).__name__}: make it from its file, with "
        f"icecore.models.find_model('FILE.py:{type(model).__name__}'), or register it, with "
        f"icecore.models.MODELS['{model.name}'] = {type(model).__name__}, or save nothing, with out=None",
    )


def pick_device(name: str) -> torch.device:
    """Return the device; `auto` is the GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda needs a CUDA device, and torch finds none; use --device cpu or auto")
    require(name in ("cpu", "cuda"), f"device must be auto, cpu or cuda, got '{name}'")
    return torch.device(name)
