"""One pass through everything that computes, with the shapes and types of all of it checked."""

import json
import os

import pytest
import torch
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import TypeCheckError

from icecore.analysis.moments import Explained, Moments
from icecore.analysis.subspaces import basis_of
from icecore.cli import main
from icecore.tasks.decimal_addition import add_digits
from icecore.tasks.lazy import or_else

pytestmark = pytest.mark.shapes
SMALL = ["--width", "16", "--steps", "4", "--batch", "8", "--warmup-steps", "1", "--seeds", "2", "--device", "cpu"]


class Uncovered(Moments):
    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.scatter = torch.zeros((width, width + 1))


class Twice(Moments):
    def neurons(self, count: int) -> torch.Tensor:
        return torch.zeros((len(self.mean), 2 * count))


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


@pytest.mark.skipif(os.environ.get("ICECORE_CHECK_SHAPES") != "1", reason="shapes are not checked in this pass")
@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Moments("wide"),  # type: ignore[arg-type]
        lambda: Moments(4).add(torch.zeros(5)),
        lambda: Moments(4).directions(2.5),  # type: ignore[arg-type]
        lambda: Uncovered(4).covariance,  # not square
        lambda: basis_of("neurons", 2, Twice(4), Moments(4)),
        lambda: or_else(torch.zeros(3, dtype=torch.int64), torch.zeros((3, 1), dtype=torch.int64)),
        lambda: Explained(0.5, "most"),  # type: ignore[arg-type]
        lambda: add_digits(torch.zeros((2, 3), dtype=torch.int64), torch.zeros((2, 4), dtype=torch.int64)),
    ],
    ids=[
        "type",
        "dimensions",
        "number",
        "result",
        "size in an argument",
        "shape by another name",
        "dataclass",
        "axis in two arguments",
    ],
)
def test_wrong_shapes_and_types_are_noticed(wrong):
    with pytest.raises((BeartypeCallHintViolation, TypeCheckError)):
        wrong()
