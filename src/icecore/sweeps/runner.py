"""Run missing cells on this machine, in populations that fit in memory; record each as soon as it finishes."""

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icecore.errors import InputError
from icecore.models import Half, Model, is_shipped
from icecore.store import INSIDE, TRACKS, Record, Records, read_json, remember_source, try_lock
from icecore.sweeps import extras, variance
from icecore.sweeps.cells import Cell
from icecore.sweeps.tracks import track_records
from icecore.training import HeldRun, ProgressCallback, TrainedRun, numbered, pick_device, pick_precision, train
from icecore.training.identity import setting_of
from icecore.training.stored_config import CONFIG
from icecore.user_code import reraise_user_error

MOST_PARAMETERS = {"cpu": 2**28, "cuda": 2**30}  # per population; AdamW takes 16 bytes per parameter
START_OF: dict[Half, str] = {"all": "from_run", "body": "body_from", "embeddings": "embeddings_from"}  # of `train`


@dataclass(frozen=True)
class Job:
    """Seeds of a cell to train together."""

    cell: Cell
    seeds: tuple[int, ...]
    force: bool = False  # train it whatever memory is free

    @property
    def seed_steps(self) -> int:
        return len(self.seeds) * self.cell.of_one_seed.steps

    @property
    def label(self) -> str:
        return f"{self.cell.label}, seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))}"


def run_of(cell: Cell, seed: int, precision: str) -> str:
    """Return the run id of one seed, the same in any population."""
    return cell.config((seed,), precision).run_id


def missing(
    cells: Sequence[Cell],
    seeds: int | Iterable[int],
    records: Records,
    precision: str,
    device: str,
    at_once: int | None = None,
    runs: Path | None = None,
    force: bool = False,
) -> list[Job]:
    """Return the jobs not recorded yet, as populations that fit in memory; cells that share runs are run once.

    Seeds that were started together under `runs` stay together, so that they resume from their checkpoint.
    """
    stored = RecordIndex(records)
    begun = begun_together(runs, precision) if runs else {}
    analyzed = {cell.setting for cell in cells if cell.is_analyzed}
    found: list[Job] = []
    for setting, cell in {cell.setting: cell for cell in reversed(cells)}.items():
        chosen = dataclasses.replace(cell, is_analyzed=setting in analyzed)
        wanted = [seed for seed in numbered(seeds) if not stored.has(chosen, seed, precision)]
        fit = max(1, min(at_once or len(wanted) or 1, MOST_PARAMETERS[device] // parameters_of(cell)))
        found += [Job(chosen, each, force) for each in grouped(wanted, fit, begun.get(setting, []))]
    order = {cell.setting: place for place, cell in reversed(list(enumerate(cells)))}
    return sorted(found, key=lambda population: order[population.cell.setting])


def grouped(wanted: Sequence[int], most: int, begun: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Group the wanted seeds, at most `most` each; groups already begun come first if all their seeds are wanted."""
    left, groups = list(wanted), []
    for group in begun:
        if len(group) <= most and set(group) <= set(left):
            groups.append(group)
            left = [seed for seed in left if seed not in group]
    return groups + [tuple(left[begin : begin + most]) for begin in range(0, len(left), most)]


def begun_together(runs: Path, precision: str) -> dict[str, list[tuple[int, ...]]]:
    """Return by setting the seeds of each run begun under `runs`."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for path in sorted(runs.glob(f"*/[!.]*/{CONFIG}")):
        with contextlib.suppress(InputError, AttributeError, KeyError, TypeError, ValueError):  # not a config
            config = read_json(path)
            if config["precision"] == precision:
                found.setdefault(setting_of(config), []).append(tuple(map(int, config["seeds"])))
    return found


class RecordIndex:
    """Index of the records of runs, of their activations and of their tracks."""

    def __init__(self, records: Records) -> None:
        self.records, self.inside, self.tracks = records, records.beside(INSIDE), records.beside(TRACKS)
        self.known, self.analyzed, self.tracked = (each.by_run() for each in (self.records, self.inside, self.tracks))

    def has(self, cell: Cell, seed: int, precision: str) -> bool:
        run = run_of(cell, seed, precision)
        is_analyzed = not cell.is_analyzed or run in self.analyzed
        return run in self.known and is_analyzed and (cell.tracking is None or run in self.tracked)

    def add(self, made: "Measured") -> None:
        """Append new records. A run retrained to measure more of it keeps its first record."""
        self.records.append(one for one in made.records if one["run"] not in self.known)
        self.inside.append(one for one in made.inside if one["run"] not in self.analyzed)
        self.tracks.append(one for one in made.tracks if one["run"] not in self.tracked)


@dataclass(frozen=True)
class Measured:
    """Records of a population, one per seed."""

    records: list[Record]
    inside: list[Record] = dataclasses.field(default_factory=list)
    tracks: list[Record] = dataclasses.field(default_factory=list)

    @property
    def accuracy(self) -> list[float]:
        return [record["accuracy"] for record in self.records]


def measure(population: "Job", run: TrainedRun, runs: Path, device: str, precision: str) -> Measured:
    """Return the records of a trained population; `runs` has the runs that its cell names."""
    records, cell = list(records_of(run)), population.cell
    for add in (extras.with_memory, extras.with_text, extras.with_coordinates):
        records = add(run, records)
    inside = list(variance.inside_records(run, records)) if cell.is_analyzed else []
    tracks: list[Record] = []
    if (tracking := cell.tracking) is not None:
        beside = tracking.beside and finished_run(tracking.beside, population, runs, device, precision)
        tracks = list(track_records(run, records, tracking.items, beside))
    return Measured(records, inside, tracks)


def parameters_of(cell: Cell) -> int:
    config = cell.of_one_seed
    return sum(spec.size for spec in config.model.specs(config.dims).values())


@dataclass(frozen=True)
class Failure:
    """A population that ended in an error; the sweep continued."""

    label: str
    reason: str


def run_missing(
    populations: Sequence[Job],
    records: Records,
    runs: Path,
    device: str,
    precision: str,
    progress_of: Callable[[Job], ProgressCallback | None],
    on_done: Callable[[Job, list[float]], None],
) -> list[Failure]:
    """Train and record one population after another; return the failures.

    Runs are saved under `runs` while they train, so that a killed sweep resumes. Populations that another runner holds
    or has recorded meanwhile are skipped.
    """
    remember_source()
    chosen = pick_precision(precision, pick_device(device))
    failures: list[Failure] = []
    for population in populations:
        with held(records.path.parent, population) as is_ours:
            stored = RecordIndex(records)
            if not is_ours or all(stored.has(population.cell, seed, chosen) for seed in population.seeds):
                continue
            try:
                with failing_alone(population.cell.model):
                    run = train_population(population, runs, device, chosen, progress_of(population))
                    made = measure(population, run, runs, device, chosen)
            except InputError as error:
                failures.append(Failure(population.label, str(error)))
                continue
            stored.add(made)
            on_done(population, made.accuracy)
    return failures


def failing_alone(model: Model) -> contextlib.AbstractContextManager[None]:
    """Turn errors of a user's model into a failure of its population; an error of ours is a bug and ends the sweep."""
    return contextlib.nullcontext() if is_shipped(model) else reraise_user_error(f"{model.name} failed in training")


def train_population(
    population: Job,
    runs: Path | None,
    device: str,
    precision: str,
    on_progress: ProgressCallback | None = None,
    sources: Path | None = None,
) -> TrainedRun:
    """Train a job, or resume from its last checkpoint; without `runs`, nothing is saved.

    A run that it starts from is under `sources`, by default `runs`, and is trained first if it is not there. Another
    process may be training it for the same reason: then wait for it.
    """
    cell = population.cell
    start: dict[str, Any] = {}
    if (origin := cell.origin) is not None:
        source = finished_run(origin.cell, population, sources or runs, device, precision)
        start = {START_OF[origin.take]: source, "rescale": origin.rescale}
    while True:
        with contextlib.suppress(HeldRun):
            return train(
                cell.task,
                cell.model,
                cell.trainable,
                population.seeds,
                preset=cell.preset,
                out=runs,
                resume=None,
                device=device,
                precision=precision,
                on_progress=on_progress,
                force=population.force,
                evaluate_every=extras.evaluate_every(cell.task, cell.of_one_seed.steps),
                snapshots=None if cell.tracking is None or runs is None else cell.tracking.snapshots,
                **start,
                **cell.training,
            )
        time.sleep(1)


def finished_run(cell: Cell, population: Job, runs: Path | None, device: str, precision: str) -> TrainedRun:
    """Return another cell's run with a job's seeds, trained if it is not there."""
    return train_population(Job(cell, population.seeds, population.force), runs, device, precision)


def records_of(runs: TrainedRun) -> Iterator[Record]:
    """Yield one record per seed; runs of older versions have unknown provenance."""
    per_seed = {name: value for name, value in runs.result.items() if isinstance(value, list) and name != "seeds"}
    shared = {name: value for name, value in runs.result.items() if not isinstance(value, list)}
    for index, seed in enumerate(runs.config.seeds):
        config = dataclasses.replace(runs.config, seeds=(seed,))
        yield {
            "run": config.run_id,
            "setting": setting_of(config.as_json()),
            "seed": seed,
            **{name: value[index] for name, value in per_seed.items()},
            **dict.fromkeys(("commit", "source", "command"), "unknown"),
            **shared,
            "seeds_at_once": len(runs.config.seeds),
            "config": config.as_json(),
        }


@contextlib.contextmanager
def held(folder: Path, population: Job, kind: str = "locks") -> Iterator[bool]:
    """Lock all seeds of a population until the block ends; yield whether that succeeded.

    Locks are files in `folder`, in a subfolder per kind. A killed process releases its locks.
    """
    with contextlib.ExitStack() as stack:
        names = [f"{population.cell.setting}-{seed}" for seed in population.seeds]
        yield all(stack.enter_context(locked(folder / kind / name)) for name in names)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A pipe would wait for a reader, and a link may lead anywhere.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        folder = path.parent.parent
        raise InputError(f"cannot write to {folder}: {error.strerror or error}; choose another folder") from error
    try:
        yield try_lock(handle)
    finally:
        os.close(handle)
