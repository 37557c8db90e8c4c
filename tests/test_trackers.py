"""Trackers read a run's folder: every logged number once, per seed, also after an interruption."""

import json
import os

import pytest
import torch
from small_runs import FLAGS, MODEL, SHORT, TASK, Stop, stop_after

import icecore as ice
from icecore.cli import main
from icecore.store import Records
from icecore.training import trackers
from icecore.training.run_folder import RunFolder
from icecore.training.trackers import following, numbers_of

SMALL = ["--steps", "4", "--warmup-steps", "1"]


class Kept:
    """A tracker that keeps what it is told."""

    every: dict[tuple[str, int], "Kept"] = {}  # noqa: RUF012 (emptied by the fixture)

    def __init__(self, config, seed, out) -> None:
        self.config, self.rows, self.result = config, [], None
        Kept.every[config.run_id, seed] = self

    def log(self, step, numbers) -> None:
        self.rows.append((step, dict(numbers)))

    def close(self, result) -> None:
        assert self.result is None
        self.result = dict(result)


@pytest.fixture
def kept(monkeypatch):
    Kept.every = {}
    monkeypatch.setitem(trackers.TRACKERS, "kept", Kept)
    monkeypatch.setattr(trackers, "require_trackers", lambda _: None)
    return Kept.every


def rows_of(folder: RunFolder, index: int):
    return [(row["step"], numbers_of(row, index)) for row in folder.metrics()]


def test_every_logged_number_once_per_seed(kept, tmp_path):
    assert main(["train", "needle", *FLAGS, "--steps", "12", "--out", str(tmp_path), "--log", "kept"]) == 0
    (path,) = tmp_path.glob("needle/*")
    folder = RunFolder(path)
    assert {seed for _, seed in kept} == {0, 1}
    for (run, seed), tracker in kept.items():
        assert run == path.name
        assert tracker.rows == rows_of(folder, seed)
        assert "accuracy" in tracker.rows[-1][1]
        assert tracker.result["accuracy"] == folder.result()["accuracy"][seed]


def test_a_run_that_was_interrupted_is_logged_from_its_folder(kept, tmp_path):
    task = {"task": TASK, "model": MODEL, **SHORT, "out": tmp_path, "checkpoint_every": 4, "device": "cpu"}
    with pytest.raises(Stop):
        ice.train(**task, on_progress=stop_after(6))
    config = ice.training.config_of(TASK, MODEL, **SHORT)
    with following(["kept"], tmp_path) as followed:
        run = ice.train(**task, resume=True, on_progress=followed(config, None))
    assert run.path is not None
    for (_, seed), tracker in kept.items():
        assert tracker.rows == rows_of(RunFolder(run.path), seed)
        assert [step for step, _ in tracker.rows] == sorted({step for step, _ in tracker.rows})


def test_a_complete_run_is_logged_too(kept, tmp_path):
    command = ["train", "needle", *FLAGS, "--steps", "4", "--out", str(tmp_path)]
    assert main(command) == 0
    assert main([*command, "--log", "kept"]) == 0
    assert all(tracker.rows for tracker in kept.values())
    assert len(kept) == 2


def test_probes_are_logged_by_name():
    row = {"step": 3, "loss": [1.0, 2.0], "probes": {"norm": [5.0, 6.0]}, "note": "x", "bad": [float("nan"), 1.0]}
    assert numbers_of(row, 0) == {"loss": 1.0, "norm": 5.0}
    assert numbers_of(row, 1) == {"loss": 2.0, "norm": 6.0, "bad": 1.0}


def test_sweeps_log_every_run(kept, tmp_path, capsys):
    command = ["compare", "needle", "--max-pairs", "2", "--values", "9", "--vocabulary", "20", "--test-size", "20"]
    command += ["--widths", "8,12", "--trainable", "unembed", "--batch", "8", *SMALL, "--seeds", "2", "--device", "cpu"]
    assert main([*command, "--out", str(tmp_path), "--log", "kept"]) == 0
    capsys.readouterr()
    assert len(kept) == 4
    recorded = {record["accuracy"] for record in Records(tmp_path).by_run().values()}
    assert {tracker.result["accuracy"] for tracker in kept.values()} == recorded


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "needle", "--log", "tensorbord"], "did you mean 'tensorboard'"),
        (["compare", "needle", "--log", "nothing"], "unknown tracker 'nothing'"),
        (["reproduce", "table1", "--log", "tensorboard", "--executor", "ray"], "--log follows runs of this machine"),
    ],
)
def test_errors_are_one_line(arguments, words, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert words in error
    assert len(error.splitlines()) == 1


def test_a_missing_extra_says_how_to_install_it(capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert main(["train", "needle", "--log", "wandb"]) == 2
    assert "pip install 'icecore[wandb]'" in capsys.readouterr().err


def test_tensorboard_reads_what_was_logged(tmp_path):
    reader = "tensorboard.backend.event_processing.event_accumulator"
    accumulator = pytest.importorskip(reader, reason="needs the extra tensorboard")
    for _ in range(2):  # written anew, not twice
        assert main(["train", "needle", *FLAGS, "--steps", "6", "--out", str(tmp_path), "--log", "tensorboard"]) == 0
    (path,) = tmp_path.glob("needle/*")
    for seed in (0, 1):
        events = accumulator.EventAccumulator(str(tmp_path / "tensorboard" / "needle" / path.name / f"seed{seed}"))
        events.Reload()
        found = [(event.step, event.value) for event in events.Scalars("loss")]
        expected = [(step, numbers["loss"]) for step, numbers in rows_of(RunFolder(path), seed)]
        assert [step for step, _ in found] == [step for step, _ in expected]
        assert torch.allclose(torch.tensor([v for _, v in found]), torch.tensor([v for _, v in expected]))
        assert events.Scalars("result/accuracy")[0].value == pytest.approx(RunFolder(path).result()["accuracy"][seed])


def test_wandb_logs_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="needs the extra wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert main(["train", "needle", *FLAGS, "--steps", "4", "--out", str(tmp_path), "--log", "wandb"]) == 0
    folders = sorted((tmp_path / "wandb").glob("offline-run-*"))
    assert len(folders) == 2
    assert all(any(path.suffix == ".wandb" for path in folder.iterdir()) for folder in folders)
    assert os.environ["WANDB_MODE"] == "offline"
    assert json.loads(next((tmp_path / "needle").glob("*/config.json")).read_text())["seeds"] == [0, 1]
