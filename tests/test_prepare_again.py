"""Preparing a text again: after kill -9, Ctrl-C or a full disk, beside another process, from what has changed."""

import fcntl
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from prepared_texts import END, contents, prepare, stories_file

from icecore.cli import main
from icecore.errors import InputError
from icecore.store.prepared import OUTPUTS, read_prepared


@pytest.fixture
def file(tmp_path):
    return stories_file(tmp_path)


KILL = """
import os, signal, sys, time
from icecore.cli import main
from icecore.store import files
name, moment = sys.argv[1:3]
replace = os.replace
def deadly(source, target):
    is_move = os.path.basename(source) == os.path.basename(target)
    hit = ("moved " if is_move else "") + os.path.basename(target) == name
    if hit and moment == "interrupted":
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)  # until it is here: it may come to another thread first
    if hit and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
    if hit:
        os.kill(os.getpid(), signal.SIGKILL)
files.os.replace = deadly
sys.exit(main(sys.argv[3:]))
"""


@pytest.mark.parametrize(
    ("name", "moment"),
    [
        ("plan.json", "after"),
        ("tokenizer.json", "before"),
        ("train.npy", "before"),
        ("train.npy", "after"),
        ("token_bytes.npy", "after"),
        ("manifest.json", "before"),
        ("manifest.json", "after"),
    ],
)
def test_killed_at_any_file_the_same_command_goes_on_to_the_same_bytes(tmp_path, name, moment):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command = ["prepare", "stories", "--vocabulary", "400"]
    assert main([*command, "--out", str(whole)]) == 0
    arguments = [sys.executable, "-c", KILL, name, moment, *command, "--out", str(killed)]
    assert subprocess.run(arguments, capture_output=True).returncode == -signal.SIGKILL
    made_before = {path.name: path.stat().st_mtime_ns for path in killed.iterdir() if path.name in OUTPUTS}
    if name != "manifest.json":
        with pytest.raises(InputError, match="not fully prepared yet; finish it with the same"):
            read_prepared(killed)
    assert main([*command, "--out", str(killed)]) == 0
    assert contents(whole) == contents(killed)
    assert all((killed / made).stat().st_mtime_ns == time for made, time in made_before.items()), "not made again"


def test_ctrl_c_keeps_what_is_whole_and_says_so(tmp_path):
    command = ["prepare", "stories", "--vocabulary", "400", "--out", str(tmp_path / "out")]
    arguments = [sys.executable, "-c", KILL, "train.npy", "interrupted", *command]
    stopped = subprocess.run(arguments, capture_output=True, text=True)
    assert stopped.returncode == 130
    assert stopped.stderr.splitlines()[-2:] == ["finished files are saved; the same command continues", "interrupted"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["plan.json", "tokenizer.json"]
    assert main(command) == 0


def test_a_complete_folder_is_shown_and_another_one_is_refused(tmp_path, capsys, file):
    out = tmp_path / "out"
    arguments = ["prepare", "mine", "--from", str(file), "--vocabulary", "300", "--out", str(out)]
    assert main(arguments) == 0
    assert "prepared in" in capsys.readouterr().out
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert main([*arguments, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed["was_there"] is True
    assert printed["digest"] == read_prepared(out).digest
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == before
    file.write_text(f"other{END}text")
    assert main(arguments) == 2
    assert "made from other sources or settings; use --overwrite" in capsys.readouterr().err
    assert main([*arguments, "--overwrite"]) == 0
    assert read_prepared(out).digest != printed["digest"]


@pytest.mark.parametrize(
    ("name", "moment", "is_replaced"),
    [
        ("tokenizer.json", "after", False),
        ("manifest.json", "before", False),
        ("manifest.json", "after", True),
        ("moved train.npy", "before", True),
        ("moved manifest.json", "before", True),
    ],
)
def test_killed_while_it_overwrites_the_old_text_stays_or_the_new_one_is_finished(
    tmp_path, file, name, moment, is_replaced
):
    old, new, out = tmp_path / "old", tmp_path / "new", tmp_path / "out"
    command = ["prepare", "mine", "--from", str(file), "--vocabulary"]
    for folder, size in ((old, "300"), (new, "290"), (out, "300")):
        assert main([*command, size, "--out", str(folder)]) == 0
    killed = [sys.executable, "-c", KILL, name, moment, *command, "290", "--out", str(out), "--overwrite"]
    assert subprocess.run(killed, capture_output=True).returncode == -signal.SIGKILL
    if name.startswith("moved"):
        with pytest.raises(InputError, match="not fully prepared yet; finish it with the same"):
            read_prepared(out)
    else:
        assert read_prepared(out).digest == read_prepared(old).digest, "until the new one is complete"
    assert main([*command, "290" if is_replaced else "300", "--out", str(out)]) == 0
    assert contents(out) == contents(new if is_replaced else old)


def test_a_manifest_without_what_is_reported_is_one_line(tmp_path, file, capsys):
    out = tmp_path / "out"
    prepare(out, file)
    manifest = json.loads((out / "manifest.json").read_text())
    del manifest["tokenizer"]["asked"]
    (out / "manifest.json").write_text(json.dumps(manifest))
    assert main(["prepare", "mine", "--from", str(file), "--vocabulary", "300", "--out", str(out)]) == 2
    assert "manifest.json is damaged (KeyError: 'asked'); regenerate it with --overwrite" in capsys.readouterr().err


def test_an_unfinished_folder_of_other_versions_is_refused(tmp_path, file):
    out = tmp_path / "out"
    manifest = prepare(out, file).text.manifest
    (out / "manifest.json").unlink()
    plan = {"made_from": manifest["made_from"], "versions": {"tokenizers": "0.1"}}
    (out / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(InputError, match="other versions of libraries; start again with --overwrite"):
        prepare(out, file)


def test_wrong_input_overwrites_nothing(tmp_path, capsys, file):
    out = tmp_path / "out"
    digest = prepare(out, file).text.digest
    before = contents(out)
    wrong = tmp_path / "wrong.txt"
    wrong.write_bytes(b"fine\nbro\xffken")
    command = ["prepare", "mine", "--from", str(wrong), "--out", str(out), "--overwrite"]
    assert main(command) == 2
    assert "line 2 is not UTF-8" in capsys.readouterr().err
    assert contents(out) == before
    assert read_prepared(out).digest == digest


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_complete_folder_that_is_damaged_is_not_shown_as_whole(tmp_path, file, name):
    out = tmp_path / "out"
    prepare(out, file)
    data = bytearray((out / name).read_bytes())
    data[-1] ^= 1
    (out / name).write_bytes(data)
    with pytest.raises(InputError, match=f"{name} is missing or damaged.*--overwrite"):
        prepare(out, file)
    (out / name).unlink()
    with pytest.raises(InputError, match=f"{name} is missing or damaged"):
        prepare(out, file)


def test_a_damaged_unfinished_folder_is_one_line(tmp_path, file):
    out = tmp_path / "out"
    manifest = prepare(out, file).text.manifest
    (out / "manifest.json").unlink()
    plan = {name: manifest[name] for name in ("made_from", "versions", "counts")}
    (out / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(InputError, match=r"plan\.json is damaged; start again with --overwrite"):
        prepare(out, file)
    plan["documents"] = {"train": 3, "validation": 1}
    (out / "plan.json").write_text(json.dumps(plan))
    np.save(out / "validation.npy", np.array([60_000, 0], dtype=np.uint16))
    with pytest.raises(InputError, match="damaged files of an earlier try"):
        prepare(out, file)


def test_a_folder_in_use_is_refused(tmp_path, file):
    out = tmp_path / "out"
    out.mkdir()
    handle = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another process is preparing"):
            prepare(out, file)
    finally:
        os.close(handle)


def test_sources_that_change_meanwhile_are_noticed(tmp_path, file):
    def watch(stage, *_progress):
        if stage == "training the tokenizer":
            file.write_text("a single document")

    validation = tmp_path / "other.txt"
    validation.write_text("other")
    with pytest.raises(InputError, match="changed while they were read"):
        prepare(tmp_path / "out", file, validation, watch=watch)


FULL = """
import resource, signal, sys
from icecore.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # writing more fails, as on a full disk
sys.exit(main(sys.argv[1:]))
"""


def test_a_full_disk_is_one_line_and_the_same_command_goes_on(tmp_path):
    command = ["prepare", "stories", "--vocabulary", "400", "--out", str(tmp_path / "out")]
    failed = subprocess.run([sys.executable, "-c", FULL, *command], capture_output=True, text=True)
    assert failed.returncode == 2
    error = failed.stderr.splitlines()[-1]
    assert (
        error == f"error: cannot write {tmp_path}/out/tokenizer.json: File too large; fix this or choose another path"
    )
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["plan.json"]
    assert main(command) == 0
