"""A sweep over a real Ray cluster on this machine: whatever is killed, every run ends exactly once."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_sweep import CELLS

from icecore.cli import main
from icecore.errors import InputError
from icecore.store import Records
from icecore.sweeps.cluster import LOOPBACK, SECONDS_TO_ANSWER, collect, require_answer, require_head
from icecore.sweeps.names import CellName
from icecore.sweeps.runner import Failure, Job, Measured

pytest.importorskip("ray", reason="needs the extra ray")
TINY = str(Path(__file__).parent / "tiny_sweep.py")
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONWARNINGS": "ignore",
}


def processes(name: str) -> list[int]:
    """Processes of this machine whose title begins so."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace").startswith(name):
                found.append(int(folder.name))
    return found


def wait_for_worker(seconds: float = 300) -> int:
    """A worker that trains."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := processes("ray::train_on_worker"):
            return found[0]
        time.sleep(0.1)
    raise AssertionError("no worker began to train")


def as_of_a_worker(error: Exception) -> Exception:
    """Error that Ray raises here for an error there."""
    from ray.exceptions import RayTaskError

    return RayTaskError("train_on_worker", str(error), error).as_instanceof_cause()


@contextlib.contextmanager
def cluster() -> Iterator[tuple[str, Callable[[], None]]]:
    """Two nodes of one core each: the address, and how to take the second one down."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = made.add_node(num_cpus=1)
    try:
        assert made.address is not None
        yield made.address, lambda: made.remove_node(second, allow_graceful=False)
    finally:
        made.shutdown()


def test_workers_nodes_and_drivers_may_be_killed(tmp_path):
    """Twelve runs; a worker is killed -9, then a node, then the driver, which is started again."""

    def driver(address: str) -> subprocess.Popen[bytes]:
        folders = ["--results", str(tmp_path), "--runs", str(tmp_path / "runs")]
        arguments = ["reproduce", "table2", "--seeds", "2", *folders, "--device", "cpu", "--json"]
        command = [sys.executable, TINY, *arguments, "--executor", "ray", "--address", address]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT)

    with cluster() as (address, take_down):
        first = driver(address)
        os.kill(wait_for_worker(), signal.SIGKILL)
        wait_for_worker()
        take_down()
        wait_for_worker()
        first.kill()
        first.communicate()
        again = driver(address)
        _, errors = again.communicate(timeout=240)
        assert again.returncode == 0, errors.decode()[-2000:]
    records = Records(tmp_path).read()
    assert len(records) == len({record["run"] for record in records}) == 12
    assert {"--executor ray" in record["command"] for record in records} == {True}, "the driver's, not a worker's"


def test_an_address_where_nothing_listens_fails_soon(tmp_path, capsys):
    assert SECONDS_TO_ANSWER < 15
    flags = ["--results", str(tmp_path), "--runs", str(tmp_path / "runs"), "--device", "cpu"]
    assert main(["reproduce", "table9", *flags, "--executor", "ray", "--address", "127.0.0.1:1"]) == 2
    assert "no Ray cluster answers at 127.0.0.1:1" in capsys.readouterr().err
    for address in ("nonsense", "localhost:http", ":6379"):
        assert main(["reproduce", "table9", *flags, "--executor", "ray", "--address", address]) == 2
        assert "--address must be HOST:PORT" in capsys.readouterr().err


@pytest.mark.parametrize("prefix", ["", "ray://"])
def test_an_address_where_something_listens_is_taken(prefix):
    with socket.create_server(("127.0.0.1", 0)) as server:
        require_answer(f"{prefix}127.0.0.1:{server.getsockname()[1]}")


def test_what_fails_on_a_worker_is_told_and_the_rest_is_recorded(tmp_path):
    """Ray here is a list of what each population gave, the last one first."""
    from ray import exceptions

    given = {
        "good": Measured([{"run": "a", "accuracy": 0.5}], []),
        "refused": as_of_a_worker(InputError("a batch of 3 cannot be divided")),
        "broken": as_of_a_worker(KeyError("no such letter")),
    }

    def get(name: str) -> Measured:
        found = given[name]
        if isinstance(found, Exception):
            raise found
        return found

    waiting = {name: Job(replace(CELLS[0], name=CellName(name, "Normal")), (0,)) for name in given}
    failures: list[Failure] = []
    done: list[tuple[str, list[float]]] = []
    only = SimpleNamespace(
        wait=lambda names, num_returns, **_: (names[-num_returns:], []), get=get, exceptions=exceptions
    )
    collect(only, waiting, Records(tmp_path), failures, lambda one, accuracy: done.append((one.label, accuracy)))
    assert [failure.label for failure in failures] == ["broken, Normal, seed 0", "refused, Normal, seed 0"]
    assert "no such letter" in failures[0].reason
    assert failures[1].reason == "a batch of 3 cannot be divided"
    assert done == [("good, Normal, seed 0", [0.5])]
    assert [record["run"] for record in Records(tmp_path).read()] == ["a"]


OWN = """
import os, pathlib
from icecore.sweeps.cluster import connect
def listening():
    lines = "".join(pathlib.Path("/proc/net", kind).read_text() for kind in ("tcp", "tcp6")).splitlines()
    return {line.split()[1] for line in lines if line.split()[3] == "0A"}
before = listening()
ray = connect(None)
assert ray.get(ray.remote(lambda: 3).remote()) == 3
print(*(address.rpartition(":")[0] for address in listening() - before))
print(os.environ["RAY_AUTH_MODE"], len(os.environ["RAY_AUTH_TOKEN"]))
ray.shutdown()
"""


def test_a_cluster_of_our_own_listens_on_this_machine_only_and_wants_a_token():
    environment = {name: value for name, value in ENVIRONMENT.items() if not name.startswith("RAY_AUTH")}
    done = subprocess.run([sys.executable, "-c", OWN], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    addresses, token = done.stdout.splitlines()
    assert set(addresses.split()) <= {"0100007F", "0000000000000000FFFF00000100007F"}, "127.0.0.1 in hexadecimal"
    assert addresses
    assert token == "token 64"


def test_a_head_that_died_is_one_line(tmp_path):
    with socket.create_server((LOOPBACK, 0)) as server:
        address = f"{LOOPBACK}:{server.getsockname()[1]}"
        require_head(None, address)
    never = SimpleNamespace(wait=lambda names, **_: ([], names))
    waiting = {"one": Job(replace(CELLS[0], name=CellName("one", "Normal")), (0,))}
    with pytest.raises(InputError, match=r"the Ray cluster at .* is gone; finished runs are recorded, and the same"):
        collect(never, waiting, Records(tmp_path), [], lambda *_: None, lambda: require_head(never, address))
