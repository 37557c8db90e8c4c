"""Sweeps on a Ray cluster: fractional GPUs, retries, and runs that resume from their checkpoints.

The nodes share the folder of runs. A worker that takes over a killed worker's population finds its last checkpoint
there. Only the driver writes records.
"""

import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from icecore.errors import InputError
from icecore.store import COMMAND_VARIABLE, Records, command, remember_source
from icecore.sweeps.runner import Failure, Job, Measured, RecordIndex, held, measure, train_population

RETRIES = 20  # of a population, if its worker or node dies
SECONDS_TO_ANSWER = 5.0


def run_on_ray(
    populations: Sequence[Job],
    records: Records,
    runs: Path,
    device: str,
    precision: str,
    on_done: Callable[[Job, list[float]], None],
    address: str | None = None,
    gpus: float = 1.0,
) -> list[Failure]:
    """Train the populations on free workers; record each as soon as it finishes."""
    ray = connect(address)
    needs = {"num_cpus": 1, "num_gpus": gpus if device == "cuda" else 0, "max_retries": RETRIES}
    remote = ray.remote(**needs)(train_on_worker)
    where = str(runs.resolve())
    failures: list[Failure] = []
    with contextlib.ExitStack() as stack:
        ours = [one for one in populations if stack.enter_context(held(records.path.parent, one))]
        waiting = {remote.remote(population, where, device, precision, command()): population for population in ours}
        collect(ray, waiting, records, failures, on_done)
    return failures


def collect(
    ray: Any,
    waiting: dict[Any, Job],
    records: Records,
    failures: list[Failure],
    on_done: Callable[[Job, list[float]], None],
) -> None:
    """Record finished populations until none is pending."""
    while waiting:
        (ready,), _ = ray.wait(list(waiting), num_returns=1)
        population = waiting.pop(ready)
        try:
            made: Measured = ray.get(ready)
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            reason = str(cause) if isinstance(cause, InputError) else f"{type(error).__name__}: {error}".splitlines()[0]
            failures.append(Failure(population.label, reason))
            continue
        RecordIndex(records).add(made)
        on_done(population, made.accuracy)


def train_on_worker(population: Job, runs: str, device: str, precision: str, started_by: str) -> Measured:
    """Train one population; wait while an earlier worker still holds its locks."""
    os.environ[COMMAND_VARIABLE] = started_by
    remember_source()
    while True:
        with held(Path(runs), population, "worker-locks") as is_ours:  # the driver's locks may be in the same folder
            if is_ours:
                return measure(population, train_population(population, Path(runs), device, precision))
        time.sleep(1)


def connect(address: str | None) -> Any:
    """Return Ray, connected to the cluster at `address` (HOST:PORT, or auto for this machine's), or to a new one."""
    try:
        import ray
    except ImportError as error:
        raise InputError("--executor ray needs Ray: pip install 'icecore[ray]'") from error
    if address not in (None, "auto", "local"):
        require_answer(str(address))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    own: dict[str, Any] = {} if address else {"include_dashboard": False}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise InputError(f"no Ray cluster answers at {address}: {str(error).splitlines()[0]}") from error
    return ray


def require_answer(address: str) -> None:
    """Raise if nothing listens at the address; Ray takes minutes to notice."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"--address must be HOST:PORT or auto, got '{address}'")
    try:
        socket.create_connection((host, int(port)), timeout=SECONDS_TO_ANSWER).close()
    except OSError as error:
        raise InputError(
            f"no Ray cluster answers at {address} ({error.strerror or error}); is it started, and is the port right?"
        ) from error
