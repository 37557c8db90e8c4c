"""Temporary files: of several writers one wins, and what a killed process left is deleted by the next command."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from small_runs import copied, same_weights, train_whole

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.store import filled_whole, replacing, temporary
from icecore.store.files import remove_remains
from icecore.store.tensors import save_tensors
from icecore.training import RunFolder

whole = pytest.fixture(scope="module", name="whole")(train_whole)

KILLED = """
import os, pathlib, signal, sys
from icecore.store import filled_whole, replacing
kind, path = sys.argv[1:]
with {"file": replacing, "folder": filled_whole}[kind](pathlib.Path(path)):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def hidden(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_process_left_is_deleted_by_the_next_writer(tmp_path, kind):
    target = tmp_path / "made"
    killed = subprocess.run([sys.executable, "-c", KILLED, kind, str(target)])
    assert killed.returncode == -signal.SIGKILL
    assert len(hidden(tmp_path)) == 1
    (tmp_path / ".made.swp").touch()  # of somebody else
    (tmp_path / ".other.12345678.part").touch()  # not of this target
    with {"file": replacing, "folder": filled_whole}[kind](target):
        pass
    assert target.exists()
    assert hidden(tmp_path) == [".made.swp", ".other.12345678.part"]


def test_what_a_living_process_writes_is_left_alone(tmp_path):
    target = tmp_path / "table.md"
    with replacing(target) as first:
        with replacing(target) as second:
            assert first.exists()
            second.write_text("second")
        first.write_text("first")
        assert target.read_text() == "second"
    assert target.read_text() == "first"
    assert hidden(tmp_path) == []


def test_without_locks_only_what_is_older_than_a_day_is_deleted(tmp_path, monkeypatch):
    def unsupported(*_arguments):
        raise OSError("locks are not supported")

    monkeypatch.setattr(temporary.fcntl, "flock", unsupported)
    new, old = tmp_path / ".table.md.1.part", tmp_path / ".table.md.2.part"
    for path in (new, old):
        path.touch()
    os.utime(old, (0, 0))
    with replacing(tmp_path / "table.md"):
        pass
    assert hidden(tmp_path) == [new.name]


def test_of_two_that_fill_a_folder_the_first_to_finish_wins(tmp_path):
    target = tmp_path / "model"

    def both():
        with filled_whole(target) as slow, filled_whole(target) as fast:
            (slow / "weights").write_text("slow")
            (fast / "weights").write_text("fast")  # ends first

    with pytest.raises(InputError, match="model is already there: another process made it; nothing was changed"):
        both()
    assert (target / "weights").read_text() == "fast"
    assert hidden(tmp_path) == []


def test_of_several_extracts_at_once_one_wins_and_is_whole(tmp_path, whole):
    together = threading.Barrier(4)

    def extract(_):
        together.wait()
        try:
            return RunFolder(whole.path).extract(whole.config.seeds, tmp_path, half=False)
        except InputError as error:
            return str(error)

    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(extract, range(4)))
    (winner,) = [each for each in said if isinstance(each, RunFolder)]
    assert all("is already there" in each for each in said if isinstance(each, str))
    assert same_weights(winner.path, whole.path)
    assert [path.name for path in (tmp_path / "needle").iterdir()] == [winner.path.name]


def test_show_lists_no_unfinished_copy_and_deletes_it_once_its_process_is_dead(tmp_path, whole, capsys):
    path = copied(whole, tmp_path)
    with contextlib.ExitStack() as stack:
        part = stack.enter_context(filled_whole(path.with_name("copy")))
        (part / "config.json").write_bytes((path / "config.json").read_bytes())
        dead = path.with_name(".other.part")
        dead.mkdir()
        (dead / "config.json").write_bytes((path / "config.json").read_bytes())
        assert main(["show", str(tmp_path)]) == 0
        assert "1 run in" in capsys.readouterr().out
        assert part.exists()
        assert not dead.exists()


@pytest.mark.parametrize("command", [["show", "{}"], ["show", "{}/.."], ["evaluate", "{}"]])
def test_a_checkpoint_beside_a_result_is_deleted_by_the_next_command(tmp_path, whole, command):
    path = copied(whole, tmp_path)
    checkpoint = path / "checkpoint.safetensors"
    checkpoint.write_bytes(b"of a process that was killed at its very end")
    assert main([part.format(path) for part in command]) == 0
    assert not checkpoint.exists()


def test_training_again_deletes_the_checkpoint_beside_a_finished_run(tmp_path):
    settings = {"seeds": 1, "steps": 2, "batch": 4, "warmup_steps": 1, "device": "cpu", "out": tmp_path}
    task = ice.tasks.Needle(max_pairs=2, values=9, vocabulary=20, test_size=8)
    run = ice.train(task, ice.Transformer(width=8), **settings)
    assert run.path
    left = run.path / "checkpoint.safetensors"
    left.write_bytes(b"of a process that was killed after its result")
    ice.train(task, ice.Transformer(width=8), **settings)
    assert not left.exists()


def test_a_folder_in_which_weights_were_written_is_deleted_when_the_run_resumes(tmp_path):
    """safetensors writes beside its target; a kill then leaves its file, so it has a hidden folder of its own."""
    abandoned = tmp_path / ".checkpoint.safetensors.abcd.part"
    abandoned.mkdir()
    (abandoned / ".tmpxyz").touch()
    remove_remains(tmp_path, ["checkpoint.safetensors"])
    assert list(tmp_path.iterdir()) == []
    save_tensors(tmp_path / "weights.safetensors", {"a": torch.ones(2)}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["weights.safetensors"]
