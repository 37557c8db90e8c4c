"""Sweeps on a Ray cluster: fractional GPUs, retries, and runs that resume from their checkpoints.

The nodes share the folder of runs. A worker that takes over a killed worker's population finds its last checkpoint
there. Only the driver writes records.
"""

import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from icecore.errors import InputError
from icecore.store import COMMAND_VARIABLE, Records, command, remember_source
from icecore.sweeps.runner import Failure, Job, Measured, RecordIndex, held, measure, train_population

RETRIES = 20  # restarts of a population whose worker or node died
SECONDS_TO_ANSWER = 5.0
SECONDS_BETWEEN_CHECKS = 5.0
SECONDS_TO_CONNECT = "10"
LOOPBACK = "127.0.0.1"


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
    send_code(ray, populations)
    remote = ray.remote(**needs_of(device, gpus))(train_on_worker)
    where = str(runs.resolve())
    failures: list[Failure] = []
    with contextlib.ExitStack() as stack:
        ours = [one for one in populations if stack.enter_context(held(records.path.parent, one))]
        waiting = {remote.remote(population, where, device, precision, command()): population for population in ours}
        collect(ray, waiting, records, failures, on_done, lambda: require_head(ray, address))
    return failures


def collect(
    ray: Any,
    waiting: dict[Any, Job],
    records: Records,
    failures: list[Failure],
    on_done: Callable[[Job, list[float]], None],
    check: Callable[[], None] = lambda: None,
) -> None:
    """Record finished populations until none is pending; `check` raises while we wait if the cluster is gone."""
    while waiting:
        finished, _ = ray.wait(list(waiting), num_returns=1, timeout=SECONDS_BETWEEN_CHECKS)
        if not finished:
            check()
            continue
        (ready,) = finished
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
                run = train_population(population, Path(runs), device, precision)
                return measure(population, run, Path(runs), device, precision)
        time.sleep(1)


def needs_of(device: str, gpus: float) -> dict[str, Any]:
    """Return what Ray reserves for a population, and how often it starts it again."""
    return {"num_cpus": 1, "num_gpus": gpus if device == "cuda" else 0, "max_retries": RETRIES}


def send_code(ray: Any, populations: Sequence[Job]) -> None:
    """Let Ray send the classes of users' files with their tasks and models: workers cannot import them."""
    for made in {each for one in populations for each in (type(one.cell.task), type(one.cell.model))}:
        if made.source_text is not None:
            ray.cloudpickle.register_pickle_by_value(sys.modules[made.__module__])


def connect(address: str | None) -> Any:
    """Return Ray, connected to the cluster at `address` (HOST:PORT, or auto for this machine's), or to a new one.

    A new cluster listens on this machine only, and takes no command without a token.
    """
    is_own = address in (None, "local")
    os.environ.setdefault("RAY_gcs_server_request_timeout_seconds", SECONDS_TO_CONNECT)
    if is_own and "ray" not in sys.modules:  # which reads these variables when it is imported
        require_token()
    try:
        import ray
    except ImportError as error:
        raise InputError("--executor ray needs Ray: pip install 'icecore[ray]'") from error
    if address not in (None, "auto", "local"):
        require_answer(str(address))
    if ray.is_initialized():  # an earlier part of this command
        return ray
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    own: dict[str, Any] = {"include_dashboard": False, "_node_ip_address": LOOPBACK} if is_own else {}
    before = signal.getsignal(signal.SIGTERM)
    try:
        with on_loopback() if is_own else contextlib.nullcontext():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise InputError(f"no Ray cluster answers at {address}: {str(error).splitlines()[0]}") from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray's handler would exit silently
    return ray


def require_token() -> None:
    """Turn on Ray's token authentication, with a new token unless the user has one; Ray's processes inherit it."""
    if os.environ.setdefault("RAY_AUTH_MODE", "token") == "token" and "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


@contextlib.contextmanager
def on_loopback() -> Iterator[None]:
    """Keep Ray from replacing the loopback address by one that other machines can reach."""
    from ray._private import services

    usual = services.resolve_ip_for_localhost
    services.resolve_ip_for_localhost = lambda host: host
    try:
        yield
    finally:
        services.resolve_ip_for_localhost = usual


def require_head(ray: Any, address: str | None) -> None:
    """Raise if the cluster's head does not answer: Ray would wait for minutes and then end the process."""
    head = address if address not in (None, "auto", "local") else ray.get_runtime_context().gcs_address
    try:
        require_answer(str(head))
    except InputError:
        raise InputError(
            f"the Ray cluster at {head} is gone; finished runs are recorded, and the same command continues"
        ) from None


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
