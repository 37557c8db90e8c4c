"""Signals: training saves and exits with 128 + the signal's number, and resumes to the same bits."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from small_runs import FLAGS, MODEL, SHORT, TASK, run_json, same_weights, train_whole

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError, Interrupted
from icecore.signals import interrupts_deferred, interrupts_raised
from icecore.training import RunFolder
from icecore.training.progress import Intervals

whole = pytest.fixture(scope="module", name="whole")(train_whole)
SAVING = [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1]


def signal_at(step, number):
    """Send this process a signal when a step is logged."""

    def watch(progress):
        if progress.step == step and progress.evaluated is None:
            os.kill(os.getpid(), number)

    return watch


@pytest.mark.parametrize("number", SAVING)
def test_a_signal_saves_the_step_and_the_run_ends_with_the_same_bits(tmp_path, number):
    whole = ice.train(TASK, MODEL, out=tmp_path / "whole", **SHORT)
    settings = {"out": tmp_path / "stopped", "log_every": 1, "checkpoint_every": 100, **SHORT}
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match=r"interrupted after step 7, saved in .*same command and --resume") as caught:
        ice.train(TASK, MODEL, on_progress=signal_at(7, number), **settings)
    assert caught.value.exit_code == 128 + number
    assert signal.getsignal(number) == before, "restored"
    (path,) = tmp_path.glob("stopped/needle/*")
    step, _ = RunFolder(path).checkpoint_step() or pytest.fail("a checkpoint was saved")
    assert step == 7
    again = ice.train(TASK, MODEL, resume=True, **settings)
    assert whole.path
    assert again.path
    assert same_weights(whole.path, again.path)
    assert [again.result[name] for name in ("accuracy", "loss")] == [
        whole.result[name] for name in ("accuracy", "loss")
    ]


def test_sigterm_at_a_random_moment_exits_143_and_resumes_to_the_same_bits(tmp_path, capsys):
    flags = ["train", "needle", *FLAGS, "--steps", "300", "--checkpoint-every", "300"]
    expected = run_json(capsys, *flags, "--out", tmp_path / "whole", "--json")
    folder = RunFolder(tmp_path / "stopped" / "needle" / expected["run_id"])
    command = [sys.executable, "-m", "icecore", *flags, "--out", str(tmp_path / "stopped")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not list(folder.metrics()):
        time.sleep(0.002)
    time.sleep(random.uniform(0.0, 0.05))
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143, said
    assert "interrupted after step" in said.splitlines()[-1]
    assert (folder.path / "checkpoint.safetensors").exists()
    resumed = run_json(capsys, *flags, "--out", tmp_path / "stopped", "--resume", "--json")
    assert same_weights(tmp_path / "whole" / "needle" / expected["run_id"], folder.path)
    assert [resumed[name] for name in ("accuracy", "loss")] == [expected[name] for name in ("accuracy", "loss")]


def test_the_second_signal_has_its_usual_effect():
    program = (
        "import os, signal\n"
        "from icecore.signals import interrupts_deferred\n"
        "with interrupts_deferred():\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('once', flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('twice', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "once\n")


def test_a_signal_within_a_destructor_is_not_lost():
    class Dying:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGTERM)
            list(range(1000))  # here Python drops what a handler raises

    def die_and_wait():
        Dying()
        time.sleep(20)

    with interrupts_raised() as noted, pytest.raises(KeyboardInterrupt):
        die_and_wait()
    assert noted.number == signal.SIGTERM


def test_an_ignored_signal_stays_ignored():
    """`nohup` ignores SIGHUP, so that a closed terminal does not stop the run."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts_deferred() as interrupted:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interrupted.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_checkpoint_is_written_by_time_too(tmp_path, monkeypatch):
    saved = []
    save = RunFolder.save_checkpoint
    monkeypatch.setattr(
        RunFolder, "save_checkpoint", lambda folder, step, *rest: (saved.append(step), save(folder, step, *rest))
    )
    whole = ice.train(TASK, MODEL, out=tmp_path / "rarely", checkpoint_every=100, **SHORT)
    assert saved == [12], "five minutes have not passed, and the end of a phase is always saved"
    saved.clear()
    often = ice.train(TASK, MODEL, out=tmp_path / "often", checkpoint_every=100, checkpoint_minutes=1e-9, **SHORT)
    assert saved == [*range(1, 13), 12]
    assert whole.path
    assert often.path
    assert same_weights(whole.path, often.path)
    with pytest.raises(InputError, match="checkpoint_minutes must be above 0, got 0"):
        Intervals.of(10, None, None, None, 0)


def signals_itself(monkeypatch, place, number):
    """Send this process a signal where a command calls the named function."""

    def call(*_arguments, **_settings):
        os.kill(os.getpid(), number)
        pytest.fail("the signal interrupts")

    monkeypatch.setattr(place, call)


@pytest.mark.parametrize(
    ("place", "command"),
    [
        ("icecore.training.population.predict", "evaluate {run} --errors {out}/errors.jsonl"),
        ("icecore.training.run_folder.RunFolder.load", "analyze {run} --out {out}/table.json"),
        ("icecore.text.prepare.count_documents", "prepare stories --out {out}/stories"),
        ("icecore.sweeps.runner.measure", "compare needle --widths 16 --steps 2 --seeds 1 --device cpu --out {out}"),
    ],
)
@pytest.mark.parametrize("number", SAVING[:2])
def test_a_signal_ends_every_command_with_its_code_and_one_line(
    tmp_path, whole, capsys, monkeypatch, place, command, number
):
    out = tmp_path / "out"
    out.mkdir()
    signals_itself(monkeypatch, place, number)
    before = signal.getsignal(number)  # Ray, in a test that ran earlier in this process, leaves its own
    assert main(command.format(run=whole.path, out=out).split()) == 128 + number
    said = capsys.readouterr().err
    assert said.splitlines()[-1] == f"interrupted by {number.name}"
    assert "Traceback" not in said
    assert not [path for path in out.rglob(".*") if path.is_file()], "temporary files are removed"
    assert signal.getsignal(number) == before


PROGRAM = """
import os, signal, sys
import icecore as ice
from icecore.cli import main
from icecore.errors import Interrupted
from icecore.tasks import Needle
task = Needle(max_pairs=3, values=20, vocabulary=40, test_size=50)
rank, number = int(os.environ["RANK"]), signal.SIGUSR1
from icecore.training import loop
take = loop.Steps.take
def takes(steps, *parts):
    take(steps, *parts)
    if rank == 1 and int(steps.step) == 13:
        os.kill(os.getpid(), number)  # to one process; the others hear of it
loop.Steps.take = takes
try:
    ice.train(task, ice.Transformer(width=16, init="matched"), steps=4000, batch=16, out=sys.argv[1], device="cpu")
except Interrupted as error:
    line = f"{rank} {error.exit_code} {str(error).split(',')[0]}\\n"
    os.write(1, line.encode())  # in one piece: both processes write to one pipe
"""


def test_a_signal_to_one_of_several_processes_stops_them_all(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = ["torch.distributed.run", "--nproc-per-node", "2", "--standalone", "program.py", "out"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert sorted(done.stdout.splitlines()) == [
        "0 138 interrupted after step 16",
        "1 138 interrupted after step 16",
    ], done.stderr[-2000:]
    assert list(tmp_path.glob("out/needle/*/checkpoint.safetensors"))
