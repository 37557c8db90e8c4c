"""Devices, pipes, folders and loops of links in place of a file: one line, without waiting."""

import os
from pathlib import Path

import pytest
from small_runs import FLAGS, copied, train_whole

from icecore.cli import main
from icecore.errors import InputError
from icecore.store.reading import read_regular
from icecore.sweeps.runner import locked

whole = pytest.fixture(scope="module")(train_whole)
TRAIN = ["train", "needle", *FLAGS, "--steps", "12"]
FILES = ("config.json", "result.json", "metrics.jsonl", "weights.safetensors")


def replace(file: Path, kind: str) -> None:
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.symlink_to("/dev/zero" if kind == "device" else file.name)


def error_of(capsys, *arguments: object) -> str:
    assert main([str(argument) for argument in arguments]) == 2
    err = capsys.readouterr().err
    assert err.count("error: ") == 1
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
@pytest.mark.parametrize("name", FILES)
def test_a_run_of_special_files_is_one_line(whole, tmp_path, capsys, name, kind):
    run = copied(whole, tmp_path)
    replace(run / name, kind)
    commands = [["show", run], ["extract", run, "--seeds", "1", "--out", tmp_path / "new"], [*TRAIN, "--out", tmp_path]]
    for command in commands:
        if command[0] == "show" and name == "weights.safetensors":
            continue  # which show does not read
        said = error_of(capsys, *command)
        assert f"{run / name} cannot be read: it is a {kind}, not a file" in said


def test_a_loop_of_links_is_one_line(whole, tmp_path, capsys):
    run = copied(whole, tmp_path)
    replace(run / "config.json", "loop")
    for command in ("show", "evaluate"):
        assert "is no" in error_of(capsys, command, run)
    loop = tmp_path / "loop"
    loop.symlink_to(loop.name)
    for flag in ("--out", "--figures"):
        said = error_of(capsys, "analyze", whole.path, "--what", "variance", "--device", "cpu", flag, loop)
        assert "loop" in said
    assert "loop" in error_of(capsys, "evaluate", whole.path, "--errors", loop)
    error_of(capsys, "evaluate", loop)


def test_more_than_the_bound_is_not_read(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_regular(file, 5) == b"12345"
    with pytest.raises(InputError, match="has 5 bytes, and icecore reads at most 4"):
        read_regular(file, 4)
    os.truncate(file, 64 * 2**30)  # sparse
    with pytest.raises(InputError, match="reads at most"):
        read_regular(file, 2**20)


@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_records_that_are_no_file_are_one_line(tmp_path, capsys, kind):
    (tmp_path / "runs.jsonl").write_text("")
    replace(tmp_path / "runs.jsonl", kind)
    said = error_of(capsys, "results", "merge", tmp_path, "--results", tmp_path / "ours")
    assert f"it is a {kind}, not a file" in said


def test_snapshots_that_lead_elsewhere_delete_nothing_there(whole, tmp_path, capsys):
    run, elsewhere = copied(whole, tmp_path / "sent"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    kept = [elsewhere / ".settings.txt", elsewhere / "00000003-seed0.safetensors"]
    for file in kept:
        file.touch()
    (run / "snapshots").symlink_to(elsewhere)
    said = error_of(capsys, *TRAIN, "--out", tmp_path / "sent", "--overwrite")
    assert f"{run / 'snapshots'} is a link" in said
    assert all(file.exists() for file in kept)


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_lock_that_is_no_file_is_not_waited_for(tmp_path, kind):
    lock, elsewhere = tmp_path / "locks" / "x", tmp_path / "elsewhere"
    lock.parent.mkdir()
    os.mkfifo(lock) if kind == "pipe" else lock.symlink_to(elsewhere)
    with pytest.raises(InputError, match="cannot write to"), locked(lock):
        pass
    assert not elsewhere.exists()
