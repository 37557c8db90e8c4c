"""Files and streams that others have spoilt: one line that says so, and nothing is lost or half done."""

import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib.figure
import pytest
from small_runs import FLAGS, MODEL, SHORT, TASK, Stop, copied, stop_after, train_whole

import icecore as ice
from icecore.cli import main
from icecore.drawing import new_figure, write
from icecore.errors import InputError

whole = pytest.fixture(scope="module")(train_whole)
DEEP = "[" * 100_000


def error_of(capsys, *arguments: object) -> str:
    assert main([str(argument) for argument in arguments]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    return error


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'step\\": 4', b'step\\": 9', "checksum is wrong"),
        (b'step\\": 4', b'stop\\": 4', "checksum is wrong"),
        (b"notes_sha256", b"notes_sha25x", None),
    ],
)
def test_notes_of_a_checkpoint_are_checked(tmp_path, old, new, message):
    with pytest.raises(Stop):
        ice.train(TASK, MODEL, out=tmp_path, log_every=1, checkpoint_every=2, on_progress=stop_after(5), **SHORT)
    (checkpoint,) = tmp_path.glob("needle/*/checkpoint.safetensors")
    content = checkpoint.read_bytes()
    assert content.count(old) == 1
    checkpoint.write_bytes(content.replace(old, new))
    if message is None:  # as older files are, without
        ice.train(TASK, MODEL, out=tmp_path, resume=True, **SHORT)
        return
    with pytest.raises(InputError, match=message):
        ice.train(TASK, MODEL, out=tmp_path, resume=True, **SHORT)


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("result.json", "[1]", "show"),
        ("result.json", '{"accuracy": [1], "loss": [1], "seeds": [0]}', "evaluate"),
        ("result.json", "[]", "extract"),
        ("result.json", DEEP, "show"),
        ("config.json", '{"optimization": {}}', "show"),
        ("config.json", '{"task": 3}', "resume"),
        ("config.json", DEEP, "evaluate"),
    ],
)
def test_damaged_files_of_a_run_are_named(whole, tmp_path, capsys, name, text, command):
    run = copied(whole, tmp_path / "out")
    (run / name).write_text(text)
    if command == "resume":
        (run / "result.json").unlink()
        flags = [*FLAGS, "--steps", "12", "--out", tmp_path / "out", "--resume"]
        assert name in error_of(capsys, "train", "needle", *flags)
        return
    out = ["--out", tmp_path / "kept", "--seeds", "1"] if command == "extract" else []
    assert name in error_of(capsys, command, run, *out)


@pytest.mark.parametrize(
    ("part", "name", "value"), [("model", "heads", 2.0), ("task", "max_pairs", 1.5), (None, "positions", 61.5)]
)
def test_numbers_of_a_config_that_are_not_whole_are_refused(whole, tmp_path, part, name, value):
    run = copied(whole, tmp_path / "out")
    config = json.loads((run / "config.json").read_text())
    (config if part is None else config[part]["settings"])[name] = value
    (run / "config.json").write_text(json.dumps(config))
    done = process("evaluate", str(run))  # where no test checks types
    assert done.returncode == 2
    assert f"{name} must be a whole number" in done.stderr


def test_damaged_lines_of_metrics_are_left_out(whole, tmp_path):
    run = copied(whole, tmp_path / "out")
    (run / "result.json").unlink()
    with (run / "metrics.jsonl").open("a") as stream:
        stream.write(f'{{"step": null}}\n{DEEP}\n')
    assert ice.train(TASK, MODEL, out=tmp_path / "out", resume=True, **SHORT).metrics[-1]["step"] == 12


def test_nothing_is_written_into_a_run(whole, tmp_path, capsys):
    run = copied(whole, tmp_path / "out")
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    for flags in (["--out", run / "config.json"], ["--figures", run], ["--figures", run / "deeper"]):
        assert "holds only the run" in error_of(capsys, "analyze", run, "--what", "variance", *flags)
    assert "holds only the run" in error_of(capsys, "evaluate", run, "--errors", run / "errors.jsonl")
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_where_nothing_can_be_written_is_told_before_the_work(whole, monkeypatch, capsys):
    monkeypatch.setattr("icecore.reporting.inside.analyze_run", lambda *_: pytest.fail("it looks"))
    assert "it is a folder" in error_of(capsys, "analyze", whole.path, "--what", "variance", "--out", "/")
    assert "it is a folder" in error_of(capsys, "bench", "--out", "/")


def test_a_figure_stays_where_the_new_one_fails(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    write(new_figure(1, 1), [path])
    before = path.read_bytes()

    def full(_figure, file, **_settings):
        Path(file).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", full)
    with pytest.raises(InputError, match="No space left on device"):
        write(new_figure(1, 1), [path])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_that_was_killed_before_its_config_was_written_begins_again(whole, tmp_path):
    folder = tmp_path / whole.path.parent.name / whole.path.name
    folder.mkdir(parents=True)
    (folder / "task.py").write_text("half of it")
    assert ice.train(TASK, MODEL, out=tmp_path, **SHORT).accuracy == whole.accuracy


def test_files_that_prepare_did_not_make_stay(tmp_path, capsys):
    (tmp_path / "train.npy").write_text("mine")
    assert "is not part of a prepared text" in error_of(capsys, "prepare", "stories", "--out", tmp_path, "--overwrite")
    assert (tmp_path / "train.npy").read_text() == "mine"
    for flags in ([], ["--overwrite"]):
        assert main(["prepare", "stories", "--out", str(tmp_path / "text"), *flags]) == 0


def process(*arguments: str, closed: str = "", **settings: str) -> subprocess.CompletedProcess:
    """In a shell, with some of its streams closed."""
    command = f'"{sys.executable}" -m icecore "$@" {closed}'
    environment = {**os.environ, **settings}
    return subprocess.run(
        ["bash", "-c", command, "icecore", *arguments], env=environment, capture_output=True, text=True
    )


def test_nobody_has_to_listen_to_progress(tmp_path):
    flags = [*FLAGS, "--steps", "12", "--out", str(tmp_path), "--json"]
    done = process("train", "needle", *flags, closed="2> >(head -c 1 > /dev/null)")
    assert (done.returncode, json.loads(done.stdout.splitlines()[-1])["steps"]) == (0, 12)
    closed = process("tasks", "needle", closed="2>&- >&-")
    assert (closed.returncode, closed.stdout) == (0, "")


def test_any_text_can_be_printed_in_any_alphabet():
    done = process("--help", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "Start with icecore demo" in done.stdout
