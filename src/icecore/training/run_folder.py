"""Run on disk: first the config, then checkpoints, last the result, whose presence means complete."""

import contextlib
import dataclasses
import functools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from icecore.errors import InputError, require
from icecore.models import Model, ModelDims, trained_names
from icecore.store import (
    filled_whole,
    read_json,
    remove_remains,
    try_lock,
    write_json,
    write_whole,
)
from icecore.store.reading import MOST_RECORDS, read_regular
from icecore.store.record_schema import problem_of_result
from icecore.store.records import with_new_names
from icecore.store.tensors import load_weights, save_tensors
from icecore.training.checkpoint import read_checkpoint, step_of_checkpoint
from icecore.training.config import RunConfig
from icecore.training.frozen_bodies import body_digests, noted_digests
from icecore.training.identity import COPIES, differences, name_of
from icecore.training.population import Population
from icecore.training.precision import Precision
from icecore.training.run_code import code_of_run, require_copies, require_id
from icecore.training.run_sizes import require_fit, require_start_fits, seeds_of
from icecore.training.snapshots import copy_snapshots, forget_snapshots_after
from icecore.training.start import FromRun, start_of_json
from icecore.training.stored_config import CONFIG, read_config, require_begun, require_same_config, texts_of

METRICS, CHECKPOINT, WEIGHTS, RESULT = "metrics.jsonl", "checkpoint.safetensors", "weights.safetensors", "result.json"
STARTED_FROM = "start.safetensors"  # what was taken from another run and cannot be regenerated from seeds
BEFORE_CONFIG = (*COPIES.values(), STARTED_FROM)  # written first: a config says that a run was begun
MOST_STEP = 2**53  # a float holds it
FILES = (CONFIG, *COPIES.values(), STARTED_FROM, METRICS, CHECKPOINT, WEIGHTS, RESULT)


class HeldRun(InputError):
    """Another process is training the run."""


class RunFolder:
    """Files of one run. All writes are atomic, except that metrics are appended line by line.

    With `trust`, code that came with the run is executed; otherwise only if this user trained with it here.
    """

    def __init__(self, path: Path | str, trust: bool = False) -> None:
        self.path, self.trust = Path(path), trust

    @staticmethod
    def of(config: RunConfig, out: Path) -> "RunFolder":
        return RunFolder(out / config.task.name / config.run_id)

    @property
    def is_complete(self) -> bool:
        return (self.path / RESULT).exists() and (self.path / WEIGHTS).exists()

    @property
    def is_begun(self) -> bool:
        return (self.path / CONFIG).exists()

    def remove_leftovers(self) -> None:
        """Delete the checkpoint that a process killed at its very end left beside the result."""
        if self.is_complete:
            with contextlib.suppress(OSError):  # a folder that cannot be written
                (self.path / CHECKPOINT).unlink(missing_ok=True)

    @contextlib.contextmanager
    def begun(self, config: RunConfig, resume: bool | None, overwrite: bool) -> Iterator[None]:
        """Begin the run and lock its folder while the block runs; a killed process releases the lock."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file; choose another --out")
        new = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise InputError(f"cannot write {self.path}: {error.strerror or error}; choose another --out") from error
        try:
            if not try_lock(handle):
                raise HeldRun(
                    f"another process is training the run in {self.path}; wait for it, or choose another --out"
                )
            try:
                self.begin(config, resume, overwrite)
            except InputError:
                for folder in new:
                    with contextlib.suppress(OSError):
                        folder.rmdir()
                raise
            yield
        finally:
            os.close(handle)

    def begin(self, config: RunConfig, resume: bool | None, overwrite: bool) -> None:
        """Create the folder, or check that it can be resumed; resume=None resumes if a run was begun."""
        remove_remains(self.path, FILES)
        if self.is_begun and not overwrite:
            stored = read_config(self.path)
            require_same_config(self.path, stored, config.as_json())
            if resume is False and not self.is_complete:
                raise InputError(
                    f"{self.path} holds an unfinished run; add --resume to continue it, or --overwrite to start again"
                )
            if stored != config.as_json():  # paths have changed
                write_json(self.path / CONFIG, config.as_json())
            return
        if resume is True and not self.is_begun:
            raise InputError(f"nothing to resume in {self.path.parent}: {self.nearest(config)}; drop --resume to start")
        if not self.is_begun and any(path.name not in BEFORE_CONFIG for path in self.path.iterdir()):
            raise InputError(f"{self.path} holds files that do not belong to a run; choose another --out")
        if self.is_begun:
            for name in (RESULT, WEIGHTS, CHECKPOINT, METRICS):
                (self.path / name).unlink(missing_ok=True)
            forget_snapshots_after(self.path, 0)
        self.write_config(config)

    def write_config(self, config: RunConfig) -> None:
        for kind, text in texts_of(config).items():
            if text is not None:
                with write_whole(self.path / COPIES[kind]) as stream:
                    stream.write(text)
        if isinstance(config.start, FromRun) and (taken := config.start.taken) is not None:
            chosen = [taken.seeds.index(seed) for seed in config.seeds]
            save_tensors(self.path / STARTED_FROM, {name: each[chosen] for name, each in taken.values.items()}, {})
        write_json(self.path / CONFIG, config.as_json())

    def nearest(self, config: RunConfig) -> str:
        """Describe how the most similar run in the same folder differs."""
        candidates = []
        for path in sorted(self.path.parent.glob(f"[!.]*/{CONFIG}")):
            with contextlib.suppress(InputError):  # damaged
                candidates.append(differences(read_config(path.parent), config.as_json()))
        if not candidates:
            return "there is no run yet"
        closest = min(candidates, key=len)
        return f"the most similar run there has another config ({'; '.join(closest[:3])})"

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        try:
            with (self.path / METRICS).open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"cannot write {self.path / METRICS}: {reason}; fix this, then --resume") from error

    def metrics(self) -> Iterable[dict[str, Any]]:
        """Yield the rows written so far; skip a truncated last line."""
        try:
            lines = read_regular(self.path / METRICS, MOST_RECORDS).decode("utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                row = json.loads(line)
                if isinstance(row, dict) and type(row.get("step")) is int and 0 <= row["step"] <= MOST_STEP:
                    yield row

    def forget_metrics_after(self, step: int) -> None:
        rows = [row for row in self.metrics() if row["step"] <= step]
        with write_whole(self.path / METRICS) as stream:
            stream.writelines(json.dumps(row) + "\n" for row in rows)

    def save_checkpoint(self, step: int, seconds: float, tensors: Mapping[str, Tensor]) -> None:
        save_tensors(self.path / CHECKPOINT, tensors, {"step": step, "seconds": seconds})

    def checkpoint_step(self) -> tuple[int, float] | None:
        """Return the step of the checkpoint and the seconds of training until it, if there is one."""
        path = self.path / CHECKPOINT
        return step_of_checkpoint(path) if path.exists() else None

    def load_checkpoint(self, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors of the checkpoint; raise unless they are like these."""
        return read_checkpoint(self.path / CHECKPOINT, like)

    def finish(self, config: RunConfig, result: Mapping[str, Any], population: Population, with_body: bool) -> None:
        """Write the weights, then the result, then delete the checkpoint: a run killed in between can still resume.

        Frozen parameters are saved only `with_body`; otherwise they are regenerated from the seeds.
        """
        everything, trained = population.whole, config.trained_names
        tensors = everything if with_body else {name: everything[name] for name in trained}
        notes = {"body_sha256": body_digests(population, trained), "with_body": with_body}
        save_tensors(self.path / WEIGHTS, tensors, notes)
        write_json(self.path / RESULT, result)
        (self.path / CHECKPOINT).unlink(missing_ok=True)

    def extract(self, seeds: tuple[int, ...], out: Path, half: bool = False) -> "RunFolder":
        """Copy some seeds into a new run under `out`, with their snapshots.

        `half` stores float16, with 11 significant bits: near-ties may be decided differently.
        """
        config, result = self.complete_config(), self.result()
        missing = [seed for seed in seeds if seed not in config.seeds]
        require(not missing, f"the run has the seeds {list(config.seeds)}, not {missing}")
        chosen = [config.seeds.index(seed) for seed in seeds]
        rows = [seeds_of(row, chosen, len(config.seeds)) for row in self.metrics()]
        tensors, notes = load_weights(self.path / WEIGHTS)
        noted_digests(self.path / WEIGHTS, notes, config.seeds)
        if half:
            require(
                not notes.get("with_body"),
                f"{self.path} was saved with its body, which --half would change; extract it without --half",
            )
            tensors = {name: halved(name, value) for name, value in tensors.items()}
        kept = RunFolder.of(dataclasses.replace(config, seeds=seeds), out)
        is_itself = os.path.realpath(kept.path) == os.path.realpath(self.path)  # resolve() raises for a loop of links
        require(not is_itself, f"{self.path} already has exactly these seeds")
        require(not kept.is_begun, f"{kept.path} is already there; choose another --out, or remove it first")
        with filled_whole(kept.path) as path:
            RunFolder(path).write_config(dataclasses.replace(config, seeds=seeds))
            with write_whole(path / METRICS) as stream:
                stream.writelines(json.dumps(row) + "\n" for row in rows)
            kept_notes = seeds_of(notes, chosen, len(config.seeds))
            save_tensors(path / WEIGHTS, {name: value[chosen] for name, value in tensors.items()}, kept_notes)
            stored = {"weights": "float16"} if half else {}
            copy_snapshots(self.path, path, config, seeds, *([halved] if half else []))
            write_json(path / RESULT, seeds_of(result, chosen, len(config.seeds)) | stored)
        return kept

    def result(self) -> dict[str, Any]:
        """Return the measurements at the end of training."""
        result = read_json(self.path / RESULT)
        result = with_new_names(result) if isinstance(result, dict) else result
        problem = problem_of_result(result)
        require(problem is None, f"{self.path / RESULT} is damaged: {problem}; delete the folder, and train again")
        return result

    def complete_config(self) -> RunConfig:
        """Return the config of a finished run; raise unless the folder has its name and the weights fit it."""
        require_begun(self.path)
        if not self.is_complete:
            raise InputError(f"{self.path} is unfinished; finish it with icecore train ... --resume")
        self.remove_leftovers()
        stored = read_config(self.path)
        code = code_of_run(stored, self.path, self.trust)
        try:
            config = RunConfig.from_json(
                self.with_its_data(stored), code, functools.partial(require_fit, self.path / WEIGHTS), self.read_start
            )
        except InputError as error:
            names_its_file = any(str(self.path / name) in str(error) for name in (WEIGHTS, STARTED_FROM))
            raise error if names_its_file else InputError(f"{self.path / CONFIG}: {error}") from error
        for run_id in (name_of(stored), config.run_id):  # also of the settings that it was made with
            require_id(self.path, run_id)
        return config

    def read_start(self, entry: Mapping[str, Any], model: Model, dims: ModelDims, seeds: tuple[int, ...]) -> FromRun:
        """Return the start of a stored run; raise unless its file fits the config."""
        made = start_of_json(entry, seeds, {})
        if made.rescaled is not None:
            trained_names(model, dims, made.rescaled)  # raises for an unknown role
        require_start_fits(self.path / STARTED_FROM, model, dims, made.take, seeds)
        return start_of_json(entry, seeds, load_weights(self.path / STARTED_FROM)[0])

    def require_run_of(self, config: RunConfig) -> None:
        """Raise unless the folder holds the finished run of this config and of its code, none of which is executed."""
        require_same_config(self.path, read_config(self.path), config.as_json())
        require_copies(self.path, texts_of(config))
        trainables = [phase.trainable for phase in config.phases]
        require_fit(self.path / WEIGHTS, config.model, config.dims, trainables, config.seeds)
        self.remove_leftovers()

    def with_its_data(self, value: Any) -> Any:
        """Return the config; data paths that do not exist from here are looked up from the folders above the run."""
        try:
            where = dict(value["task"]["where"])
        except (KeyError, TypeError, ValueError):
            return value
        for name, place in where.items():
            if isinstance(place, str) and not Path(place).exists():
                above = (folder / place for folder in self.path.resolve().parents)
                where[name] = next((str(path) for path in above if path.exists()), place)
        return {**value, "task": {**value["task"], "where": where}}

    def load(self, device: torch.device, config: RunConfig | None = None) -> tuple[RunConfig, Population]:
        """Return the run's config and trained population; the frozen body is regenerated and checked.

        With a `config`, the run must be that config's, and nothing in the folder is executed.
        """
        if config is None:
            config = self.complete_config()
        else:
            self.require_run_of(config)
        tensors, notes = load_weights(self.path / WEIGHTS)
        precision = Precision(config.precision) if device.type == "cuda" else Precision.fp32
        population = Population(
            config.model, config.dims, config.seeds, config.trainable, device, precision, initial=config.initial
        )
        trained = config.trained_names
        population.load(tensors)
        made = body_digests(population, trained)
        digests = noted_digests(self.path / WEIGHTS, notes, config.seeds)
        for seed, ours, stored in zip(config.seeds, made, digests, strict=True):
            if ours != stored:
                raise InputError(
                    f"the frozen body of seed {seed} regenerated here (SHA-256 {ours[:12]}) is not that of {self.path} "
                    f"({stored[:12]}): torch versions differ in their random numbers; use the versions in "
                    f"{RESULT}, or train again with --with-body"
                )
        return config, population


def halved(name: str, value: Tensor) -> Tensor:
    """Cast to float16; raise if a value overflows."""
    result = value.half()
    require(bool(result.isfinite().all()), f"{name} has values beyond float16's 65,504; extract it without --half")
    return result
