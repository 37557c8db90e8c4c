"""A small part of `make assault`, and what the assault itself must notice."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from assault.runner import Outcome, Trial, table_of
from assault.scenarios import differences, facts_of, half_written

TESTS = Path(__file__).parent


def test_kills_fuzzed_calls_faults_and_attacks_do_no_harm():
    # A process of its own: threads of other tests would be lost in its forks.
    path = os.pathsep.join([str(TESTS), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "assault", "--small"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {
        line.split()[0]: int(line.split()[2]) for line in done.stdout.splitlines() if line.split()[1:2] == ["all"]
    }
    assert counts == {"kills": 5, "fuzz": 20, "faults": 6, "attacks": 20}


def test_an_assault_notices_a_bad_end():
    good = Outcome(2, "", "error: no\n", 0.1)
    assert good.faults((0, 2)) == []
    assert Outcome(2, "", "error: no\nerror: no\n", 0.1).faults((0, 2))
    assert Outcome(2, "", "no\n", 0.1).faults((0, 2))
    assert Outcome(-signal.SIGSEGV, "", "", 0.1).faults((0, 2))
    assert Outcome(0, "", "Traceback (most recent call last):\n", 0.1).faults((0, 2))


def test_an_assault_notices_what_is_left_and_what_is_half(tmp_path):
    (tmp_path / "result.json").write_text('{"accuracy": 1.0, "seconds": 3.0}')
    before = facts_of(tmp_path)
    (tmp_path / "result.json").write_text('{"accuracy": 1.0, "seconds": 4.0}')
    assert differences(facts_of(tmp_path), before) == [], "times may differ"
    (tmp_path / "result.json").write_text('{"accuracy": 0.9, "seconds": 3.0}')
    (tmp_path / ".result.json.x1").write_text("{")
    assert differences(facts_of(tmp_path), before) == ["left behind: .result.json.x1", "other content: result.json"]
    assert half_written(tmp_path) == []
    (tmp_path / "result.json").write_text('{"accur')
    assert half_written(tmp_path) == ["half-written: result.json"]


def test_an_assault_prints_how_to_repeat_a_failure():
    trials = [Trial("kills", "train", "seed 0, trial 0"), Trial("kills", "train", "seed 0, trial 1", ("lost",))]
    lines = table_of(trials).splitlines()
    assert lines[1].split() == ["kills", "train", "2", "1"]
    assert lines[-1] == "FAILED kills, seed 0, trial 1: lost"
