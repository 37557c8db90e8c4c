"""Weights along the way: when they are saved, that they change nothing, and that they survive a death."""

import shutil
from types import SimpleNamespace

import pytest
import torch
from small_runs import FLAGS, MODEL, SHORT, TASK, Stop, run_json, same_weights, stop_after

import icecore as ice
from icecore.cli import main
from icecore.errors import Advice, InputError
from icecore.store.tensors import load_tensors, save_tensors
from icecore.sweeps.tracking import Track
from icecore.training import RunFolder, config_of, disk
from icecore.training.snapshots import file_of, parameters_at, snapshot_steps, snapshots_in

COMMON = {"batch": 16, "lr": 1e-2, "warmup_steps": 2, "seeds": 2}
PHASES = [{"trainable": "embeddings", "steps": 8}, {"trainable": "all", "steps": 4}]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return ice.train(TASK, MODEL, out=tmp_path_factory.mktemp("whole"), phases=PHASES, snapshots=2, **COMMON)


def test_snapshots_are_closer_at_the_beginning_of_each_phase():
    config = config_of(TASK, MODEL, phases=[{"steps": 100}, {"steps": 400}])
    assert snapshot_steps(config, 4) == (6, 25, 56, 100, 125, 200, 325), "500 is the end, the run's own weights"
    assert snapshot_steps(config, 1) == snapshot_steps(config, None) == (100,), "where a phase begins"
    assert snapshot_steps(config_of(TASK, MODEL, steps=3), 20) == (1, 2)
    assert snapshot_steps(config_of(TASK, MODEL, steps=3), None) == ()
    with pytest.raises(InputError, match="snapshots must be 1 to 1,000, got 0"):
        snapshot_steps(config, 0)


def test_a_snapshot_is_the_run_at_that_step(whole):
    assert snapshots_in(whole.path) == {step: {0, 1} for step in (2, 8, 9)}
    embeddings = ice.train(TASK, MODEL, steps=8, **COMMON)
    for seed in (0, 1):
        assert all(
            torch.equal(value, embeddings.parameters(seed)[name])
            for name, value in parameters_at(whole.path, whole.config, 8, seed).items()
        )
        at_start = parameters_at(whole.path, whole.config, 0, seed)
        assert all(torch.equal(value, whole.config.initial(seed)[name]) for name, value in at_start.items())


def test_what_has_not_trained_is_not_saved(whole):
    assert set(load_tensors(file_of(whole.path, 8, 0))[0]) == {"token", "position", "unembed"}
    assert set(load_tensors(file_of(whole.path, 9, 0))[0]) == set(whole.config.initial(0))


def test_snapshots_change_nothing(whole, tmp_path):
    plain = ice.train(TASK, MODEL, out=tmp_path, phases=PHASES, **COMMON)
    assert plain.path is not None
    assert plain.config.run_id == whole.config.run_id
    assert same_weights(plain.path, whole.path)
    assert set(snapshots_in(plain.path)) == {8}, "where the second phase begins"
    with pytest.warns(Advice, match="has not all of these snapshots; overwrite it"):
        ice.train(TASK, MODEL, out=tmp_path, phases=PHASES, snapshots=2, **COMMON)
    ice.train(TASK, MODEL, out=tmp_path, phases=PHASES, snapshots=2, overwrite=True, **COMMON)
    assert set(snapshots_in(plain.path)) == {2, 8, 9}
    ice.train(TASK, MODEL, out=tmp_path, phases=PHASES, overwrite=True, **COMMON)
    assert set(snapshots_in(plain.path)) == {8}
    alone = ice.train(TASK, MODEL, out=tmp_path, **SHORT)
    assert alone.path is not None
    assert not (alone.path / "snapshots").exists(), "one phase has only its ends"


@pytest.mark.parametrize("died_at", [3, 8, 9, 11])
def test_a_resumed_run_has_the_same_snapshots(whole, tmp_path, died_at):
    settings = {"out": tmp_path, "phases": PHASES, "log_every": 1, "checkpoint_every": 5, **COMMON}
    with pytest.raises(Stop):
        ice.train(TASK, MODEL, on_progress=stop_after(died_at), snapshots=3, **settings)
    again = ice.train(TASK, MODEL, resume=True, snapshots=2, **settings)
    assert again.path is not None
    assert {2, 8, 9} - set(snapshots_in(again.path)) <= {2}, "2 was before, with another spacing"
    for step, seeds in snapshots_in(again.path).items():
        if step in (8, 9):
            for seed in seeds:
                ours, theirs = (parameters_at(path, whole.config, step, seed) for path in (again.path, whole.path))
                assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_the_disk_must_have_room_for_snapshots_weights_and_two_checkpoints(monkeypatch, tmp_path):
    needed = 4 * 2 * (2 * 2880 + 9472 + 9472 + 2 * 3 * 9472)
    settings = {"out": tmp_path / "out", "phases": PHASES, "snapshots": 2, **COMMON}

    def has_free(count):
        monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: SimpleNamespace(free=count))

    has_free(needed - 1)
    with pytest.raises(
        InputError, match=r"about 0\.0 GB .* for 3 snapshots, .*: take fewer --snapshots, or another --out"
    ):
        ice.train(TASK, MODEL, **settings)
    assert not (tmp_path / "out").exists()
    has_free(needed)
    with pytest.raises(Stop):
        ice.train(TASK, MODEL, on_progress=stop_after(9), log_every=1, checkpoint_every=1, **settings)
    (run,) = (tmp_path / "out/needle").iterdir()
    has_free(4 * 2 * (9472 + 9472 + 2 * 3 * 9472) - (run / "checkpoint.safetensors").stat().st_size)
    ice.train(TASK, MODEL, resume=True, **settings)
    has_free(4 * 2 * 7 * 2880 - 1)
    with pytest.raises(InputError, match=r"are free in .*: choose another --out"):
        ice.train(TASK, MODEL, out=tmp_path / "out", **SHORT)


def test_extracted_seeds_keep_their_snapshots(whole, tmp_path):
    for half, tolerance in ((False, 0.0), (True, 1e-3)):
        kept = RunFolder(whole.path).extract((1,), tmp_path / str(half), half)
        assert snapshots_in(kept.path) == {step: {1} for step in (2, 8, 9)}
        config, population = kept.load(torch.device("cpu"))
        for step in (2, 9):
            ours, theirs = (
                parameters_at(path, each, step, 1) for path, each in ((kept.path, config), (whole.path, whole.config))
            )
            for name, value in theirs.items():
                assert ours[name].dtype == value.dtype
                assert torch.allclose(ours[name], value, rtol=tolerance, atol=1e-7), name
        assert Track(kept.path, config, population, (1,)).steps == [9, 12]


def test_snapshots_need_a_folder():
    with pytest.raises(InputError, match="give out, or drop snapshots"):
        ice.train(TASK, MODEL, snapshots=2, **SHORT)


def test_a_damaged_snapshot_is_refused(whole, tmp_path, monkeypatch):
    run = tmp_path / whole.path.name
    shutil.copytree(whole.path, run)
    file = file_of(run, 9, 0)
    values, notes = load_tensors(file)
    save_tensors(file, {name: value for name, value in values.items() if name != "token"}, notes)
    with monkeypatch.context() as patch:
        patch.setattr("icecore.training.snapshots.load_weights", lambda _: pytest.fail("it loads"))
        with pytest.raises(InputError, match=r"does not fit config\.json: token differs; delete the folder snapshots"):
            parameters_at(run, whole.config, 9, 0)
    with pytest.raises(InputError, match=r"does not fit config\.json: token differs"):
        RunFolder(run).extract((0,), tmp_path / "extracted")
    assert not list(tmp_path.glob("extracted/*/*"))
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(InputError, match="is damaged"):
        parameters_at(run, whole.config, 9, 0)
    file.unlink()
    with pytest.raises(InputError, match="there is no file"):
        parameters_at(run, whole.config, 9, 0)
    assert RunFolder(run).is_complete


def test_snapshots_on_the_command_line(tmp_path, capsys):
    flags = [*FLAGS, "--steps", "4", "--out", tmp_path, "--snapshots", "2", "--json"]
    assert set(snapshots_in(tmp_path / run_json(capsys, "train", "needle", *flags)["run"])) == {1}
    assert main([str(flag) for flag in ("train", "needle", *flags, "--snapshots", "0")]) == 2
    assert "--snapshots" in capsys.readouterr().err
