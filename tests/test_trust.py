"""Somebody else's run: code that came with it is executed only with --trust, or if this user trained with it here."""

import json
import os
import stat
from pathlib import Path

import pytest
from small_runs import CPU, FLAGS, MODEL, SHORT, TASK, copied, train_whole
from small_sweep import CELLS, sweep

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.store.trusted import digest_of_code, is_trusted, remember_code, trusted_list
from icecore.training import RunFolder
from icecore.training.identity import name_of
from icecore.user_code import hash_of

whole = pytest.fixture(scope="module")(train_whole)
TRAIN = ["train", "needle", *FLAGS, "--steps", "12"]
SIDE_EFFECT = 'import pathlib\npathlib.Path("EXECUTED").touch()\n'
CODE = {
    "task": f"""{SIDE_EFFECT}
from dataclasses import dataclass
from icecore.tasks import Needle

@dataclass(frozen=True)
class Sent(Needle):
    name = "sent"
""",
    "model": f"""{SIDE_EFFECT}
from dataclasses import dataclass
from icecore.models import Transformer

@dataclass(frozen=True)
class Sent(Transformer):
    name = "sent"
""",
}
OPENS = {
    "evaluate": ["--device", "cpu", "--errors", "errors.jsonl"],
    "analyze": ["--what", "variance", "--device", "cpu", "--out", "inside.json"],
    "track": ["--device", "cpu", "--out", "track.json"],
    "playground": ["--out", "page.html"],
    "extract": ["--seeds", "1", "--out", "extracted"],
    "export": ["exported"],
    "sample": ["--device", "cpu"],
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A current folder, where a side effect would show, and an empty state folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


def as_sent(whole, tmp_path: Path, kind: str = "task", *, copy: bool = True, **changes: str) -> Path:
    """Turn a run of needle into one with the sender's code, under the id of its new config."""
    run, text = copied(whole, tmp_path), CODE[kind]
    (tmp_path / "outside.py").write_text(text)
    if copy:
        (run / f"{kind}.py").write_text(text)
    config = json.loads((run / "config.json").read_text())
    origin = {"class": "Sent", "file": f"{kind}.py", "source": hash_of(text)} | changes
    config[kind] |= {"name": "sent"} | origin
    (run / "config.json").write_text(json.dumps(config))
    return run.rename(run.with_name(name_of(config)))


def refusal(capsys, *arguments: object) -> str:
    """Run a command that must refuse in one line, execute nothing and write nothing."""
    assert main([str(argument) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert list(Path.cwd().iterdir()) == []
    return err


@pytest.mark.parametrize("kind", CODE)
@pytest.mark.parametrize("command", OPENS)
def test_code_that_came_with_a_run_is_refused_and_named(whole, tmp_path, capsys, command, kind):
    run = as_sent(whole, tmp_path, kind)
    said = refusal(capsys, command, run, *OPENS[command])
    assert f"{run / f'{kind}.py'} is Python code that came with the run" in said
    assert f"SHA-256 {digest_of_code(CODE[kind])}" in said
    assert f"read it, with less {run / f'{kind}.py'}; if you trust it, add --trust" in said


@pytest.mark.parametrize("kind", CODE)
@pytest.mark.parametrize("flag", ["--from", "--body-from", "--embeddings-from"])
def test_a_run_to_start_from_is_no_exception(whole, tmp_path, capsys, flag, kind):
    run = as_sent(whole, tmp_path, kind)
    said = refusal(capsys, *TRAIN, flag, run, "--out", "new")
    assert f"{run / f'{kind}.py'} is Python code that came with the run" in said


def test_a_run_beside_a_track_is_no_exception(whole, tmp_path, capsys):
    thaw = ["--trainable", "all", "--steps", "2", "--warmup-steps", "1", "--device", "cpu", "--out", tmp_path / "new"]
    assert main(list(map(str, ["train", "needle", "--from", whole.path, *thaw]))) == 0
    (thawed,) = tmp_path.glob("new/needle/*")
    capsys.readouterr()
    run = as_sent(whole, tmp_path)
    said = refusal(capsys, "track", thawed, "--beside", run, "--device", "cpu")
    assert f"{run / 'task.py'} is Python code that came with the run" in said


def test_a_report_does_not_execute_it_either(whole, tmp_path, capsys):
    run = as_sent(whole, tmp_path, "model")
    assert main(["report", str(run), "--out", "page.html"]) == 2
    *_, last = capsys.readouterr().err.splitlines()  # after its progress
    assert last.startswith(f"error: {run / 'model.py'} is Python code that came with the run")
    assert list(Path.cwd().iterdir()) == []


def test_the_command_to_read_it_can_be_copied(whole, tmp_path, capsys):
    run = as_sent(whole, tmp_path / "; touch EXECUTED")
    assert f"with less '{run / 'task.py'}'; if" in refusal(capsys, "evaluate", run)


@pytest.mark.parametrize("kind", CODE)
def test_python_refuses_code_that_came_with_a_run(whole, tmp_path, kind):
    run = as_sent(whole, tmp_path, kind)
    with pytest.raises(InputError, match=r"SHA-256 [0-9a-f]{64}.*in Python: trust=True"):
        ice.load(run, "cpu")
    assert not Path("EXECUTED").exists()


@pytest.mark.parametrize("kind", CODE)
def test_with_trust_it_is_executed(whole, tmp_path, kind):
    run = as_sent(whole, tmp_path, kind)
    assert ice.load(run, "cpu", trust=True).accuracy == whole.accuracy
    assert Path("EXECUTED").exists()
    for command in ("evaluate", "extract"):
        assert main([command, str(run), *OPENS[command], "--trust"]) == 0
    with pytest.raises(InputError, match="trust=True"):
        ice.load(run, "cpu")


@pytest.mark.parametrize("file", ["outside", "../../outside.py", "task.py"])
def test_the_path_in_a_config_is_not_followed(whole, tmp_path, capsys, file):
    path = str(tmp_path / "outside.py") if file == "outside" else file
    run = as_sent(whole, tmp_path, copy=False, file=path)
    for command, flags in OPENS.items():
        said = refusal(capsys, command, run, *flags, "--trust")
        assert f"there is no file {run / 'task.py'}, the task of the run" in said


def test_the_hash_is_checked_before_anything_is_executed(whole, tmp_path, capsys):
    run = as_sent(whole, tmp_path, source="0" * 12)
    for command, flags in OPENS.items():
        assert "is not the task of the run: the file has changed" in refusal(capsys, command, run, *flags, "--trust")


def test_a_copy_that_is_a_link_is_refused(whole, tmp_path, capsys):
    run = as_sent(whole, tmp_path, copy=False)
    (run / "task.py").symlink_to(tmp_path / "outside.py")
    assert "task.py cannot be read: it is a link" in refusal(capsys, "evaluate", run, "--trust")


def test_code_beside_a_run_of_icecores_own_classes_is_ignored(whole, tmp_path):
    run = copied(whole, tmp_path)
    for kind, text in CODE.items():
        (run / f"{kind}.py").write_text(text)
    for command in ("evaluate", "analyze", "extract"):
        assert main([command, str(run), *OPENS[command]]) == 0
    assert ice.train(TASK, MODEL, out=tmp_path, **SHORT).accuracy == whole.accuracy
    assert not Path("EXECUTED").exists()


def put_in_place(whole, tmp_path: Path, runs: Path, kind: str) -> None:
    """Put code and its origin into every finished run under `runs`, under the id of the unchanged config."""
    sent = json.loads((as_sent(whole, tmp_path / kind, kind) / "config.json").read_text())
    (found,) = [path.parent for path in runs.glob("*/*/config.json")]
    (found / f"{kind}.py").write_text(CODE[kind])
    config = json.loads((found / "config.json").read_text())
    config[kind] |= {key: sent[kind][key] for key in ("class", "file", "source")}
    (found / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("kind", CODE)
def test_training_executes_nothing_of_a_finished_run(whole, tmp_path, capsys, kind):
    copied(whole, tmp_path / "runs")
    put_in_place(whole, tmp_path, tmp_path / "runs", kind)
    assert main([*TRAIN, "--out", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr().err
    assert "config.json is not the config it was made with; use --overwrite" in said
    assert list(Path.cwd().iterdir()) == []


def test_a_sweep_executes_nothing_of_a_finished_run(whole, tmp_path, capsys):
    runs, needle = tmp_path / "sweep", ["--max-pairs", "2", "--values", "9", "--vocabulary", "20"]
    small = ["--test-size", "20", "--widths", "8", "--steps", "4", "--warmup-steps", "2", "--batch", "8"]
    compare = ["compare", "needle", *needle, *small, "--seeds", "1", "--trainable", "unembed", "--device", "cpu"]
    assert main([*compare, "--out", str(runs)]) == 0
    (runs / "runs.jsonl").unlink()
    put_in_place(whole, tmp_path, runs, "task")
    capsys.readouterr()
    assert main([*compare, "--out", str(runs)]) == 2
    assert "config.json is not the config it was made with" in capsys.readouterr().err
    assert list(Path.cwd().iterdir()) == []


def test_reproducing_executes_nothing_of_a_finished_run(whole, tmp_path, monkeypatch, capsys):
    sweep(tmp_path / "results", tmp_path / "runs", seeds=1, cells=CELLS[1:])
    (tmp_path / "results" / "runs.jsonl").unlink()
    put_in_place(whole, tmp_path, tmp_path / "runs", "task")
    monkeypatch.setattr("icecore.cli.reproduce.cells_of", lambda *_: CELLS[1:])
    where = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs"), "--device", "cpu"]
    assert main(["reproduce", "table2", "--seeds", "1", "--precision", "fp32", *where]) == 2
    assert "config.json is not the config it was made with" in capsys.readouterr().err
    assert list(Path.cwd().iterdir()) == []


def trained_here(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(CODE["task"])
    flags = [*FLAGS, "--steps", "12", "--out", str(tmp_path / "runs")]
    assert main(["train", f"{tmp_path / 'mine.py'}:Sent", *flags]) == 0
    (run,) = (tmp_path / "runs" / "sent").iterdir()
    return run


def test_a_run_that_this_user_trained_needs_no_flag(tmp_path, capsys, monkeypatch):
    run = trained_here(tmp_path)
    (tmp_path / "mine.py").unlink()
    assert main(["evaluate", str(run), "--device", "cpu"]) == 0
    stored = trusted_list()
    assert stored is not None
    assert stored == tmp_path / "state" / "icecore" / "trusted-code"
    assert stored.read_text() == f"{digest_of_code(CODE['task'])}\n"
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state of another user"))
    assert main(["evaluate", str(run), "--device", "cpu"]) == 2
    assert "you did not train with it here" in capsys.readouterr().err


def test_another_text_in_the_copys_place_is_refused_by_training_too(tmp_path, capsys):
    run = trained_here(tmp_path)
    Path("EXECUTED").unlink()
    other = CODE["task"].replace("EXECUTED", "REPLACED")
    (run / "task.py").write_text(other)
    flags = [*FLAGS, "--steps", "12", "--out", str(tmp_path / "runs")]
    assert main(["train", f"{tmp_path / 'mine.py'}:Sent", *flags]) == 2
    assert "task.py is not the task of the run: the file has changed" in capsys.readouterr().err
    assert not Path("REPLACED").exists()


def test_looking_at_a_run_executes_nothing_and_needs_no_flag(whole, tmp_path, capsys):
    run = as_sent(whole, tmp_path)
    assert main(["show", str(run)]) == 0
    assert "task file:  task.py:Sent, SHA-256" in capsys.readouterr().out
    assert main(["show", str(tmp_path)]) == 0
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("harm", ["writable by others", "a link", "a pipe", "a folder"])
def test_a_list_that_others_may_have_written_is_ignored(tmp_path, harm):
    digest = digest_of_code("code")
    remember_code("code")
    assert is_trusted(digest)
    stored = trusted_list()
    assert stored is not None
    if harm == "writable by others":
        stored.chmod(0o622)
    else:
        moved = stored.rename(tmp_path / "moved")
        if harm == "a link":
            stored.symlink_to(moved)
        elif harm == "a pipe":
            os.mkfifo(stored)
        else:
            stored.mkdir()
    assert not is_trusted(digest)
    remember_code("code")  # which must not wait, follow or fail
    assert not is_trusted(digest)


def test_a_short_hash_is_not_enough(whole, tmp_path):
    """The config has 12 digits, for which another text can be found; the list has all 64."""
    run = as_sent(whole, tmp_path)
    stored = trusted_list()
    assert stored is not None
    stored.parent.mkdir(parents=True)
    stored.write_text(f"{hash_of(CODE['task'])}\n")
    stored.chmod(0o600)
    with pytest.raises(InputError, match="trust=True"):
        RunFolder(run).load(CPU)
    remember_code(CODE["task"])
    assert RunFolder(run).load(CPU)[0].run_id == run.name
