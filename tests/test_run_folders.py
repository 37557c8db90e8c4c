"""TrainedRun on disk: resuming to the same bits after any death, checks on loading, errors that say what to do."""

import dataclasses
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from small_runs import CPU, FLAGS, MODEL, SHORT, TASK, Stop, copied, run_json, same_weights, stop_after, train_whole

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.models import ModelDims
from icecore.store import write_json
from icecore.store.tensors import load_tensors
from icecore.tasks import ModularAddition
from icecore.training import Phase, RunConfig, RunFolder, TrainingConfig, evaluate, run_folder

whole = pytest.fixture(scope="module")(train_whole)


@pytest.mark.parametrize("died_at", [1, 5, 11, 12])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path, whole, died_at):
    with pytest.raises(Stop):
        ice.train(TASK, MODEL, out=tmp_path, log_every=1, checkpoint_every=2, on_progress=stop_after(died_at), **SHORT)
    runs = ice.train(TASK, MODEL, out=tmp_path, log_every=1, checkpoint_every=2, resume=True, **SHORT)
    assert runs.path is not None
    assert same_weights(whole.path, runs.path)
    assert runs.result["accuracy"] == whole.result["accuracy"]
    steps = [row["step"] for row in RunFolder(runs.path).metrics()]
    assert steps == list(range(1, 13)), "no step is logged twice"
    assert sorted(path.name for path in runs.path.iterdir()) == [
        "config.json",
        "metrics.jsonl",
        "result.json",
        "weights.safetensors",
    ]


def test_the_last_step_saved_but_not_the_result(tmp_path, whole, monkeypatch):
    monkeypatch.setattr(RunFolder, "finish", lambda *_: (_ for _ in ()).throw(Stop))
    with pytest.raises(Stop):
        ice.train(TASK, MODEL, out=tmp_path, **SHORT)
    monkeypatch.undo()
    runs = ice.train(TASK, MODEL, out=tmp_path, resume=True, **SHORT)
    assert runs.path is not None
    assert same_weights(whole.path, runs.path)


def test_killed_at_random_moments_nothing_is_lost(tmp_path, capsys):
    """kill -9 while it starts and then soon after random steps; the bits are those of a run that was never killed.

    ICECORE_KILLS=25 kills more often.
    """
    planned_kills = int(os.environ.get("ICECORE_KILLS", "2"))
    steps = 120 * planned_kills
    common = ["train", "needle", *FLAGS, "--steps", str(steps), "--checkpoint-every", "3"]
    expected = run_json(capsys, *common, "--out", tmp_path / "whole", "--json")
    command = [sys.executable, "-m", "icecore", *common, "--out", str(tmp_path / "killed")]
    rng = random.Random(0)
    folder = tmp_path / "killed" / "needle" / expected["run_id"]

    def last_step() -> int:
        return max((row["step"] for row in RunFolder(folder).metrics()), default=-1)

    for target in [None, *sorted(rng.sample(range(1, int(0.8 * steps)), planned_kills - 1))]:
        resume = ["--resume"] if (folder / "config.json").exists() else []
        process = subprocess.Popen([*command, *resume], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while target is not None and last_step() < target and process.poll() is None:
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 1.0 if target is None else 0.02))
        process.kill()
        assert process.wait() == -signal.SIGKILL, "killed before its end"
    last = subprocess.run([*command, "--resume"], check=False, capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    assert same_weights(tmp_path / "whole" / "needle" / expected["run_id"], folder)


def test_ctrl_c_saves_and_exits_130(tmp_path):
    command = [sys.executable, "-m", "icecore", "train", "needle", *FLAGS, "--steps", "100000", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("needle/*/metrics.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "continue with the same command and --resume" in err.splitlines()[-1]
    assert list(tmp_path.glob("needle/*/checkpoint.safetensors"))


def test_a_complete_run_is_loaded_not_repeated(whole):
    def fail(_progress):
        raise AssertionError("it trained again")

    again = ice.train(TASK, MODEL, out=whole.path.parents[1], on_progress=fail, **SHORT)
    assert again.result == whole.result
    assert torch.equal(again.population.trained["token"], whole.population.trained["token"])


def test_only_what_trained_is_stored_and_the_body_is_made_again(whole, tmp_path):
    tensors, notes = load_tensors(whole.path / "weights.safetensors")
    assert set(tensors) == {"token", "position", "unembed"}
    config, population = RunFolder(whole.path).load(CPU)
    measured = evaluate(population, config.task, config.task.test_set())
    assert measured["accuracy"] == whole.result["accuracy"]
    assert len(notes["body_sha256"]) == 2
    with_body = ice.train(TASK, MODEL, out=tmp_path, with_body=True, **SHORT)
    assert with_body.path is not None
    assert "block0.q.weight" in load_tensors(with_body.path / "weights.safetensors")[0]
    RunFolder(with_body.path).load(CPU)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--width 18 --heads 4", "multiple of heads, got width 18 with 4 heads"),
        ("--layers 0", "layers must be at least 1, got 0"),
        ("--trainable tokens", "did you mean 'token'?"),
        ("--positions 5", "positions is 5"),
        ("--seeds none", "--seeds must be a number of seeds"),
        ("--seeds 0", "--seeds must be at least 1, got '0'; '0,' is seed 0 alone"),
        ("--seeds 1,1", "seeds must differ"),
        ("--steps 0", "steps must be at least 1, got 0"),
        ("--lr nan", "lr must be at least 0 and finite"),
        ("--schedule linear", "known: cosine, constant"),
        ("--clip 0", "clip must be above 0"),
        ("--resume --overwrite", "choose one of them"),
        ("--seeds 99999999999999", "--seeds must be at most 10,000"),
        ("--layers 100000000", "layers must be at most 1,000"),
        ("--model lstm --heads 2", "has no heads"),
        ("--resume", "nothing to resume"),
        ("--device tpu", "device must be auto, cpu or cuda"),
        ("--evaluate-every 0", "evaluate_every must be at least 1"),
        ("--out /dev/null/x", "cannot write"),
        ("--preset papr", "did you mean 'paper'?"),
    ],
)
def test_bad_flags_are_one_line_and_exit_code_2(capsys, tmp_path, flags, message):
    base = ["train", "needle", "--max-pairs", "3", "--width", "16", "--steps", "20", "--warmup-steps", "2"]
    assert main([*base, "--out", str(tmp_path), *flags.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    *announced, error = captured.err.splitlines()
    assert len(announced) <= 1, "at most what trains is said first"
    assert error.startswith("error: ")
    assert message in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_cuda_without_a_gpu_says_what_to_do(capsys, tmp_path):
    assert main(["train", "needle", "--device", "cuda", "--out", str(tmp_path)]) == 2
    assert "use --device cpu or auto" in capsys.readouterr().err


def test_folders_that_are_not_this_run(tmp_path, whole):
    other = copied(whole, tmp_path / "unfinished")
    (other / "result.json").unlink()
    with pytest.raises(InputError, match="add --resume to continue it, or --overwrite"):
        ice.train(TASK, MODEL, out=tmp_path / "unfinished", **SHORT)
    with pytest.raises(InputError, match=r"most similar run there has another config \(lr 0.01, not 0.02\)"):
        ice.train(TASK, MODEL, out=tmp_path / "unfinished", resume=True, **{**SHORT, "lr": 0.02})
    foreign = tmp_path / "foreign" / "needle" / whole.path.name
    foreign.mkdir(parents=True)
    (foreign / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="holds files that do not belong to a run"):
        ice.train(TASK, MODEL, out=tmp_path / "foreign", **SHORT)
    assert (foreign / "thesis.tex").read_text() == "precious"
    config = json.loads((other / "config.json").read_text())
    config["optimization"]["lr"] = 5
    (other / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="not the config it was made with"):
        ice.train(TASK, MODEL, out=tmp_path / "unfinished", resume=True, **SHORT)


def test_two_processes_do_not_train_one_run(tmp_path, whole):
    folder = copied(whole, tmp_path / "out")
    (folder / "result.json").unlink()
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(InputError, match="another process is training the run"):
        ice.train(TASK, MODEL, out=tmp_path / "out", resume=True, **SHORT)
    os.close(handle)
    ice.train(TASK, MODEL, out=tmp_path / "out", resume=True, **SHORT)
    assert same_weights(whole.path, folder)


def test_a_run_that_another_process_has_finished_meanwhile_is_loaded(whole, monkeypatch):
    asked = []

    def is_complete(folder):
        asked.append(folder)
        return len(asked) > 1

    monkeypatch.setattr(RunFolder, "is_complete", property(is_complete))
    for resume in (False, None):
        asked.clear()
        before = (whole.path / "result.json").stat().st_mtime_ns
        runs = ice.train(
            TASK, MODEL, out=whole.path.parents[1], resume=resume, device="cpu", on_progress=stop_after(0), **SHORT
        )
        assert runs.result == whole.result
        assert (whole.path / "result.json").stat().st_mtime_ns == before


def test_a_refused_run_leaves_no_folders(tmp_path):
    with pytest.raises(InputError, match="nothing to resume"):
        ice.train(TASK, MODEL, out=tmp_path / "a" / "b", resume=True, **SHORT)
    assert not list(tmp_path.iterdir())


def test_seconds_are_those_of_all_sessions(tmp_path):
    with pytest.raises(Stop):
        ice.train(TASK, MODEL, out=tmp_path, log_every=1, checkpoint_every=2, on_progress=stop_after(7), **SHORT)
    (path,) = tmp_path.glob("needle/*")
    step, seconds = RunFolder(path).checkpoint_step() or pytest.fail("there is a checkpoint")
    assert (step, seconds > 0) == (6, True)
    RunFolder(path).save_checkpoint(step, 1000.0, load_tensors(path / "checkpoint.safetensors")[0])
    runs = ice.train(TASK, MODEL, out=tmp_path, resume=True, **SHORT)
    assert 1000 < runs.result["seconds"] < 1100


def test_a_batch_that_cannot_be_divided_leaves_no_folder(tmp_path):
    task = ModularAddition(modulus=11)  # 114 items: 50, 50 and 14 of them, which 5 does not divide
    with pytest.raises(InputError, match="a batch of 14 cannot be divided"):
        ice.train(task, MODEL, out=tmp_path, steps=3, batch=50, accumulate=5)
    assert not list(tmp_path.iterdir())


def test_a_users_task_trains_and_loads_again(tmp_path, capsys):
    example = Path(__file__).parents[1] / "examples" / "reversal.py"
    flags = ["--length", "5", "--width", "16", "--steps", "3", "--batch", "8", "--out", str(tmp_path)]
    trained = run_json(capsys, "train", f"{example}:Reversal", *flags, "--json")
    evaluated = run_json(capsys, "evaluate", trained["run"], "--json")
    assert evaluated["accuracy"] == trained["accuracy"]


def test_a_checkpoint_stays_until_the_result_is_there(tmp_path, monkeypatch):
    def killed_at_the_result(path, value):
        if path.name == "result.json":
            raise KeyboardInterrupt
        write_json(path, value)

    write_json = run_folder.write_json
    monkeypatch.setattr(run_folder, "write_json", killed_at_the_result)
    with pytest.raises(KeyboardInterrupt):
        ice.train(TASK, MODEL, steps=4, batch=8, warmup_steps=1, out=tmp_path)
    assert len(list(tmp_path.glob("needle/*/checkpoint.safetensors"))) == 1


def test_the_nearest_run_is_the_one_that_differs_least(tmp_path):
    config = RunConfig(TASK, MODEL, ModelDims(TASK.vocab_size, 10))
    for name, other in (("a", TrainingConfig(lr=0.1, steps=7, batch=3)), ("b", TrainingConfig(lr=0.2))):
        stored = dataclasses.replace(config, phases=(Phase(training=other),)).as_json()
        write_json(tmp_path / "needle" / name / "config.json", stored)
    assert "another config (lr 0.2, not 0.001)" in RunFolder.of(config, tmp_path).nearest(config)


def test_equal_runs_have_equal_bytes_and_name_their_threads(tmp_path):
    """The order of a safetensors header changes from file to file unless it is sorted."""
    runs = [ice.train(TASK, MODEL, out=tmp_path / str(number), **SHORT) for number in range(4)]
    weights = list(tmp_path.glob("*/needle/*/weights.safetensors"))
    assert len(weights) == 4
    assert len({path.read_bytes() for path in weights}) == 1
    assert len({run.config.run_id for run in runs}) == 1
    assert json.loads((weights[0].parent / "result.json").read_text())["threads"] == torch.get_num_threads()
