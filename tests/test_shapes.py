"""One pass through everything that computes, with the shapes and types of all of it checked."""

import json

import pytest

from icecore.cli import main

pytestmark = pytest.mark.shapes
SMALL = ["--width", "16", "--steps", "4", "--batch", "8", "--warmup-steps", "1", "--seeds", "2", "--device", "cpu"]


@pytest.mark.parametrize(
    "flags",
    [
        ["needle", "--max-pairs", "4", "--test-size", "20"],
        ["needle", "--max-pairs", "4", "--test-size", "20", "--model", "lstm", "--trainable", "all"],
        ["needle", "--max-pairs", "4", "--test-size", "20", "--model", "examples/own_body.py:GRU"],
        ["needle", "--max-pairs", "4", "--test-size", "20", "--model", "linearized"],
        ["modular-addition", "--modulus", "13"],
        ["parentheses", "--max-pairs", "5", "--test-size", "20", "--accumulate", "2"],
        ["decimal-addition", "--digits", "2", "--test-size", "20", "--trainable", "all"],
        ["memorization", "--keys", "8"],
        ["imitation", "--length", "3", "--vocabulary", "16", "--target-width", "4", "--test-size", "20"],
    ],
    ids=" ".join,
)
def test_from_training_to_a_look_inside(flags, tmp_path, capsys, pytestconfig, monkeypatch):
    monkeypatch.chdir(pytestconfig.rootpath)
    assert main(["train", *flags, *SMALL, "--out", str(tmp_path / "runs"), "--json"]) == 0
    run = json.loads(capsys.readouterr().out.splitlines()[-1])["run"]
    assert main(["evaluate", run, "--by-length", "--by-position", "--errors", str(tmp_path / "wrong.jsonl")]) == 0
    assert main(["analyze", run, "--items", "20"]) == 0
    assert main(["extract", run, "--seeds", "1", "--out", str(tmp_path / "kept")]) == 0
