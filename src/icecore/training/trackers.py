"""Trackers: TensorBoard and Weights & Biases logs, copied from a run's folder.

A tracker gets the rows that training has logged, one tracked run per seed. After an interruption TensorBoard's log is
written again from the folder; wandb continues its run by its id.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from icecore.errors import InputError, require, unknown_name
from icecore.store.record_schema import is_number
from icecore.training.config import RunConfig
from icecore.training.progress import Progress, ProgressCallback
from icecore.training.run_folder import RunFolder

PROJECT = "icecore"  # of wandb, unless WANDB_PROJECT names another


class Tracker(Protocol):
    """Receives the numbers of one seed."""

    def log(self, step: int, numbers: Mapping[str, float]) -> None: ...

    def close(self, result: Mapping[str, float]) -> None:
        """End the log, with the numbers at the end of training if it has ended."""
        ...


OpenTracker = Callable[[RunConfig, int, Path], Tracker]  # gets a config, one of its seeds, and the folder of runs


class TensorBoard:
    """Event files in OUT/tensorboard/TASK/RUN/seedN, written anew."""

    def __init__(self, config: RunConfig, seed: int, out: Path) -> None:
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError as error:
            raise not_installed("tensorboard") from error
        folder = out / "tensorboard" / config.task.name / config.run_id / f"seed{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        self.writer = SummaryWriter(str(folder))
        self.writer.add_text("config", f"```\n{json.dumps(config.as_json(), indent=1)}\n```", 0)
        self.step = 0

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        self.step = step
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)

    def close(self, result: Mapping[str, float]) -> None:
        for name, value in result.items():
            self.writer.add_scalar(f"result/{name}", value, self.step)
        self.writer.close()


class Wandb:
    """A run per seed, grouped by the population; offline with WANDB_MODE=offline, then in OUT/wandb."""

    def __init__(self, config: RunConfig, seed: int, out: Path) -> None:
        try:
            import wandb  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise not_installed("wandb") from error
        out.mkdir(parents=True, exist_ok=True)
        population = f"{config.task.name}/{config.run_id}"
        settings = wandb.Settings(silent=True, console="off", x_disable_stats=True)
        try:
            self.run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", PROJECT),
                id=f"{config.run_id}-seed{seed}",
                name=f"{population}, seed {seed}",
                group=population,
                config={**config.as_json(), "seed": seed},
                dir=str(out),
                resume="allow" if os.environ.get("WANDB_MODE", "online") == "online" else None,
                reinit="create_new",
                settings=settings,
            )
        except (wandb.errors.UsageError, wandb.errors.CommError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"wandb cannot log: {reason}; log in, or set WANDB_MODE=offline") from error

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        self.run.log(dict(numbers), step=step)

    def close(self, result: Mapping[str, float]) -> None:
        self.run.summary.update({f"result/{name}": value for name, value in result.items()})
        self.run.finish()


TRACKERS: dict[str, OpenTracker] = {"tensorboard": TensorBoard, "wandb": Wandb}


def not_installed(name: str) -> InputError:
    return InputError(f"--log {name} needs the extra {name}: pip install 'icecore[{name}]'")


class Following:
    """Copies what a run's folder logs to trackers, while it trains and at its end."""

    def __init__(self, config: RunConfig, out: Path, open_trackers: Sequence[OpenTracker]) -> None:
        self.folder, self.config = RunFolder.of(config, out), config
        self.by_seed: list[list[Tracker]] = []
        for seed in config.seeds:
            self.by_seed.append([open_tracker(config, seed, out) for open_tracker in open_trackers])
        self.last = -1

    def update(self, before: int | None = None) -> None:
        """Log the rows that are new; with `before`, only those up to that step."""
        for row in self.folder.metrics():
            if row["step"] <= self.last or (before is not None and row["step"] > before):
                continue
            self.last = row["step"]
            for index, trackers in enumerate(self.by_seed):
                numbers = numbers_of(row, index)
                for tracker in trackers:
                    tracker.log(row["step"], numbers)

    def close(self) -> None:
        """Log what is left, and the result if the run is complete."""
        result: dict[str, Any] = {}
        if self.folder.is_complete:
            self.update()
            result = self.folder.result()
        for index, trackers in enumerate(self.by_seed):
            for tracker in trackers:
                tracker.close(numbers_of({name: value for name, value in result.items() if name != "seeds"}, index))


def numbers_of(row: Mapping[str, Any], index: int) -> dict[str, float]:
    """Return one seed's numbers of a row of metrics or of a result, probes too."""
    probes = row.get("probes")
    found = {**row, **(probes if isinstance(probes, dict) else {})}
    each = {name: values[index] for name, values in found.items() if isinstance(values, list) and index < len(values)}
    return {name: value for name, value in each.items() if is_number(value)}


@contextlib.contextmanager
def following(
    names: Sequence[str], out: Path
) -> Iterator[Callable[[RunConfig, ProgressCallback | None], ProgressCallback | None]]:
    """Yield a function that makes a run's progress callback also log to the named trackers.

    A run's log ends when the next run begins, or with the block.
    """
    opened: list[Following] = []
    open_trackers = [tracker_named(name) for name in dict.fromkeys(names)]

    def close() -> None:
        while opened:
            opened.pop().close()

    def followed(config: RunConfig, on_progress: ProgressCallback | None) -> ProgressCallback | None:
        if not open_trackers:
            return on_progress
        close()  # runs train one after the other
        own = Following(config, out, open_trackers)
        opened.append(own)

        def report(progress: Progress) -> None:
            if on_progress is not None:
                on_progress(progress)
            if progress.evaluated is None:
                own.update(progress.step)

        return report

    try:
        yield followed
    finally:
        close()


def tracker_named(name: str) -> OpenTracker:
    if name not in TRACKERS:
        raise unknown_name("tracker", name, TRACKERS)
    return TRACKERS[name]


def require_trackers(names: Sequence[str]) -> None:
    """Raise before the work starts if a tracker is unknown or not installed."""
    import importlib.util

    for name in names:
        tracker_named(name)
        require(importlib.util.find_spec(name) is not None, str(not_installed(name)))
