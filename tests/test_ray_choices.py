"""Choices on Ray are those of one machine: rates, narrow widths first, the smallest sufficient width."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_sweep import CELLS

from icecore.cli import main
from icecore.errors import InputError
from icecore.models import Transformer
from icecore.store import Records
from icecore.store.rates import tried_rates
from icecore.sweeps import cluster, cluster_choices
from icecore.sweeps.budget import Budget
from icecore.sweeps.cluster_choices import RayTrials, choose_rates_on_ray, train_narrow_first_on_ray
from icecore.sweeps.halving import OutOfBudget, Plan, Start, Trial
from icecore.sweeps.narrow_first import Sweep, train_narrow_first
from icecore.sweeps.width_search import Question

pytest.importorskip("ray", reason="needs the extra ray")
REVERSAL = f"{Path(__file__).parents[1] / 'examples' / 'reversal.py'}:Reversal"


@dataclass(eq=False)
class Running:
    """A value that a worker computed."""

    value: Any


@dataclass
class RayHere:
    """Ray's interface, computed at once in this process."""

    called: list[str] = field(default_factory=list)
    cancelled: list[Any] = field(default_factory=list)
    is_ready: bool = True

    def __post_init__(self) -> None:
        from ray import exceptions

        self.exceptions = exceptions
        self.cloudpickle = SimpleNamespace(register_pickle_by_value=lambda _: None)

    def remote(self, **_needs: object) -> Any:
        def of(function: Any) -> Any:
            def submit(*arguments: Any) -> Any:
                self.called.append(function.__name__)
                return Running(function(*arguments) if self.is_ready else None)

            return SimpleNamespace(remote=submit)

        return of

    def wait(self, names: list[Any], **_more: object) -> tuple[list[Any], list[Any]]:
        return (names[:1], names[1:]) if self.is_ready else ([], names)

    def get(self, ready: Any) -> Any:
        return ready.value

    def cancel(self, running: Any, force: bool) -> None:
        assert force
        self.cancelled.append(running)


@pytest.fixture
def ray(monkeypatch) -> RayHere:
    """The workers' locks are in a folder of their own, as on a cluster."""
    monkeypatch.setenv("ICECORE_COMMAND", "")  # a worker sets it
    made = RayHere()
    for module in (cluster, cluster_choices):
        monkeypatch.setattr(module, "connect", lambda _: made)
        monkeypatch.setattr(module, "require_head", lambda *_: None)
    return made


# One line whose narrowest width suffices at its second rate, and one that never suffices.
LINES = [
    replace(
        cell,
        name=replace(cell.name, width=width),
        model=Transformer(width=width),
        rates=(1e-2, 3e-2),
        enough=enough,
    )
    for width in (8, 16)
    for cell, enough in zip(CELLS, (0.0, 2.0), strict=True)
]


def test_narrow_widths_first_on_workers_as_on_one_machine(tmp_path, ray):
    sweeps = {
        name: Sweep(2, Records(tmp_path / name), tmp_path / name / "runs", "cpu", "fp32") for name in ("here", "ray")
    }
    done: dict[str, list[str]] = {name: [] for name in sweeps}
    assert not train_narrow_first(
        LINES, sweeps["here"], lambda _: None, lambda job, found: done["here"].extend([job.label] * bool(found))
    )
    assert not train_narrow_first_on_ray(
        LINES, sweeps["ray"], lambda job, found: done["ray"].extend([job.label] * bool(found))
    )
    assert done["here"] == done["ray"]
    assert len(done["ray"]) == 3, "the line that suffices at width 8 is not trained at 16"
    kept = [
        {record["run"]: record["accuracy"] for record in Records(tmp_path / name).read()} for name in ("here", "ray")
    ]
    assert kept[0] == kept[1]
    rates = [{place: rate.accuracy for place, rate in tried_rates(tmp_path / name).items()} for name in ("here", "ray")]
    assert rates[0] == rates[1]
    assert ray.called.count("rate_on_worker") == 1 + 2 + 2


def test_an_error_on_a_worker_is_one_line(tmp_path, ray, monkeypatch):
    def fails(*_: object) -> float:
        from ray.exceptions import RayTaskError

        raise RayTaskError("rate_on_worker", "no such letter", KeyError("no such letter")).as_instanceof_cause()

    monkeypatch.setattr(ray, "get", fails)
    with pytest.raises(InputError, match=r"seed 0 failed on a worker: .*no such letter"):
        choose_rates_on_ray(CELLS[:1], (1e-2,), 1, tmp_path, "cpu", "fp32")


def test_a_budget_ends_and_cancels_what_workers_still_compute(tmp_path, ray):
    ray.is_ready = False
    now = [0.0]
    plan = Plan(0.99, (8,), {"Random": (Start(1e-2), Start(3e-2))}, 4, (0,))
    question = Question(CELLS[1].task, Transformer(width=8), plan, device="cpu")
    budget = Budget(100, lambda: now.__setitem__(0, now[0] + 10) or now[0])
    trials = [Trial("Random", 8, start, 4, (0,)) for start in plan.starts["Random"]]
    with pytest.raises(OutOfBudget):
        next(RayTrials(question, tmp_path, budget).measure(trials))
    assert len(ray.cancelled) == 2


def test_a_users_task_is_compared_and_searched_on_a_real_cluster(tmp_path, monkeypatch, capsys):
    """Nodes cannot import the user's file. Afterwards one machine finds the same records, and trains nothing."""
    short = ["--steps", "4", "--batch", "8", "--seeds", "2", "--widths", "4", "--device", "cpu", "--out", str(tmp_path)]
    commands = [
        ["compare", REVERSAL, *short, "--warmup-steps", "1", "--lr", "1e-2,3e-2", "--trainable", "embeddings"],
        ["threshold", REVERSAL, *short, "--lr", "1e-2", "--gains", "1", "--init", "matched"],
    ]
    code = (
        f"import sys; from icecore.cli import main; sys.exit(max(main([*each, '--executor', 'ray', '--json']) "
        f"for each in {commands!r}))"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    on_ray = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for module in ("runner", "width_search"):
        monkeypatch.setattr(f"icecore.sweeps.{module}.train", lambda *_, **__: pytest.fail("trained again"))
    capsys.readouterr()
    assert [main([*each, "--json"]) for each in commands] == [0, 0]
    here = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert here[0]["points"] == on_ray[0]["points"]
    assert here[1]["results"] == on_ray[1]["results"]
