"""A sweep over a real Ray cluster on this machine: whatever is killed, every run ends exactly once."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from icecore.cli import main
from icecore.store import Records

pytest.importorskip("ray", reason="needs the extra ray")
TINY = str(Path(__file__).parent / "tiny_sweep.py")
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONWARNINGS": "ignore",
}


def processes(name: str) -> list[int]:
    """Of this machine, those whose title begins so."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace").startswith(name):
                found.append(int(folder.name))
    return found


def wait_for_worker(seconds: float = 60) -> int:
    """A worker that trains."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := processes("ray::train_on_worker"):
            return found[0]
        time.sleep(0.1)
    raise AssertionError("no worker began to train")


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
    began = time.monotonic()
    flags = ["--results", str(tmp_path), "--runs", str(tmp_path / "runs"), "--device", "cpu"]
    assert main(["reproduce", "table9", *flags, "--executor", "ray", "--address", "127.0.0.1:1"]) == 2
    assert "no Ray cluster answers at 127.0.0.1:1" in capsys.readouterr().err
    assert time.monotonic() - began < 15
    assert main(["reproduce", "table9", *flags, "--executor", "ray", "--address", "nonsense"]) == 2
    assert "--address must be HOST:PORT" in capsys.readouterr().err
