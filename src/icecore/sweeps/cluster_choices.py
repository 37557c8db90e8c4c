"""Choices on a Ray cluster: learning rates, narrow widths first, and the search for the smallest sufficient width.

Nodes share the file of rates and the folder of trials: workers write there what they measured, and the driver reads it.
"""

import functools
import itertools
import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icecore.errors import InputError
from icecore.store import COMMAND_VARIABLE, Records, command, remember_source
from icecore.sweeps.cells import Cell
from icecore.sweeps.cluster import SECONDS_BETWEEN_CHECKS, connect, needs_of, require_head, run_on_ray, send_code
from icecore.sweeps.comparison import Seeds, missing_of, precision_of
from icecore.sweeps.halving import Measured, OutOfBudget, Trial
from icecore.sweeps.narrow_first import ONE_SEED, Sweep, is_needed
from icecore.sweeps.rates import median_at, untried_of
from icecore.sweeps.runner import Failure, Job
from icecore.sweeps.width_search import Question, Trials, run_trial, stored
from icecore.training import pick_device


def rate_on_worker(
    cell: Cell, rate: float, seeds: Seeds, folder: str, device: str, precision: str, runs: str | None
) -> float:
    """Measure and store one rate of a cell."""
    start_from = None if runs is None else Path(runs)
    return median_at(cell, rate, seeds, Path(folder), device, precision, lambda _: None, start_from)


def choose_rates_on_ray(
    cells: Sequence[Cell],
    rates: Sequence[float],
    seeds: Seeds,
    folder: Path,
    device: str = "auto",
    precision: str = "auto",
    address: str | None = None,
    gpus: float = 1.0,
    runs: Path | None = None,
) -> None:
    """Measure every cell's rates on workers; a cell that has `enough` waits for one before it tries the next."""
    ray = connect(address)
    kind = pick_device(device).type
    remote = ray.remote(**needs_of(kind, gpus))(rate_on_worker)
    where, sources = str(folder.resolve()), None if runs is None else str(runs.resolve())
    while tries := [(cell, job) for cell in cells for job in next_tries(cell, rates, seeds, folder, device, precision)]:
        send_code(ray, [job for _, job in tries])
        waiting = {
            remote.remote(cell, job.cell.training["lr"], seeds, where, kind, precision, sources): job
            for cell, job in tries
        }
        while waiting:
            for ready in ready_of(ray, waiting, address):
                value_of(ray, ready, waiting.pop(ready).label)


def next_tries(
    cell: Cell, rates: Sequence[float], seeds: Seeds, folder: Path, device: str, precision: str
) -> list[Job]:
    """Return the rates to measure now: all, or one of a cell that may not need the others."""
    computed = precision_of(cell, device, precision)
    untried = untried_of([cell], cell.rates or rates, seeds, folder, computed)
    return untried if cell.enough is None else untried[:1]


def ready_of(ray: Any, waiting: dict[Any, Any], address: str | None) -> list[Any]:
    """Return what is ready within some seconds; raise if the cluster is gone."""
    ready, _ = ray.wait(list(waiting), num_returns=1, timeout=SECONDS_BETWEEN_CHECKS)
    if not ready:
        require_head(ray, address)
    return ready


def value_of(ray: Any, ready: Any, label: str) -> Any:
    """Return a worker's value; raise its error as one line."""
    try:
        return ray.get(ready)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, InputError):
            raise cause from error
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(f"{label} failed on a worker: {reason}; fix it and run again") from error


def train_narrow_first_on_ray(
    cells: Sequence[Cell],
    sweep: Sweep,
    on_done: Callable[[Job, list[float]], None],
    address: str | None = None,
    gpus: float = 1.0,
) -> list[Failure]:
    """Choose rates and train, all cells of a width at once. Jobs that turn out not to be needed are done."""
    failures: list[Failure] = []
    for _, group in itertools.groupby(cells, key=width_to_try):
        own = list(group)
        wanted = [cell for cell in own if is_needed(cell, cells, sweep)]
        unneeded = [job for cell in own if cell not in wanted for job in sweep.missing([cell])]
        rates = [job for cell in own for job in sweep.untried(cell)]
        choosing = [cell for cell in wanted if cell.rates]
        choose_rates_on_ray(
            choosing, (), ONE_SEED, sweep.folder, sweep.device, sweep.precision, address, gpus, sweep.runs
        )
        for job in [*rates, *unneeded]:  # progress counts runs
            on_done(job, [])
        jobs = [job for cell in wanted for job in sweep.missing([cell])]
        failures += run_on_ray(jobs, sweep.records, sweep.runs, sweep.device, sweep.precision, on_done, address, gpus)
    return failures


def width_to_try(cell: Cell) -> int:
    """Return the width of a cell that may make wider ones unnecessary; the others are all trained at once."""
    return 0 if cell.enough is None else cell.model.width


def train_missing_on_ray(
    cells: Sequence[Cell],
    seeds: Seeds,
    folder: Path,
    device: str,
    precision: str,
    on_done: Callable[[Job, list[float]], None],
    force: bool = False,
    address: str | None = None,
    gpus: float = 1.0,
) -> list[Failure]:
    """Train the missing runs of a comparison on workers, and record them under `folder`."""
    records, kind = Records(folder), pick_device(device).type
    return [
        failure
        for chosen, jobs in missing_of(cells, seeds, records, device, precision, force).items()
        for failure in run_on_ray(jobs, records, folder, kind, chosen, on_done, address, gpus)
    ]


def trial_on_worker(question: Question, trial: Trial, path: str, started_by: str) -> Measured:
    """Measure and record one trial of a search."""
    os.environ[COMMAND_VARIABLE] = started_by
    remember_source()
    return run_trial(question, trial, Path(path), None)


@dataclass
class RayTrials(Trials):
    """Trials on a Ray cluster: those that are asked together are trained at once."""

    address: str | None = None
    gpus: float = 1.0

    def measure(self, trials: Sequence[Trial]) -> Generator[Measured, None, None]:
        """Yield each trial's accuracies; what is still computed is cancelled when nobody asks further."""
        ray = connect(self.address)
        needs = needs_of(pick_device(self.question.device).type, self.gpus)
        remote = ray.remote(**needs)(trial_on_worker)
        paths = {trial: self.path(trial).resolve() for trial in trials}
        under_way = {
            trial: remote.remote(self.question, trial, str(path), command())
            for trial, path in paths.items()
            if not path.exists()
        }
        try:
            for trial in trials:
                if trial not in under_way:
                    self.known += 1
                    yield stored(paths[trial])
                    continue
                self.wait_for(ray, under_way[trial], trial)
                measured = value_of(ray, under_way.pop(trial), str(trial))
                self.trained += 1
                self.on_done(trial, measured)
                yield measured
        finally:
            for running in under_way.values():
                ray.cancel(running, force=True)

    def wait_for(self, ray: Any, running: Any, trial: Trial) -> None:
        """Wait until a trial is measured; raise if the budget or the cluster ends first."""
        while True:
            seconds = min(SECONDS_BETWEEN_CHECKS, self.budget.left)
            if seconds <= 0:
                raise OutOfBudget(trial)
            if ray.wait([running], timeout=seconds)[0]:
                return
            if self.budget.left > 0:
                require_head(ray, self.address)


def trials_on_ray(questions: Sequence[Question], address: str | None, gpus: float) -> Callable[..., Trials]:
    """Return the maker of trials on a cluster, which knows the users' code in the questions."""
    ray = connect(address)
    first = [
        Job(question.cell(Trial(kind, question.plan.widths[0], starts[0], question.plan.steps, (0,))), (0,))
        for question in questions
        for kind, starts in question.plan.starts.items()
    ]
    send_code(ray, first)
    return functools.partial(RayTrials, address=address, gpus=gpus)
