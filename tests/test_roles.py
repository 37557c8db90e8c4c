"""Trained parts: norms, biases and roles of every body, with their counts."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from small_runs import TASK

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.models import LSTM, ModelDims, Transformer, trained_counts, trained_names

SMALL, DIMS = Transformer(width=16, layers=3, heads=4), ModelDims(11, 9)
SHORT = ["--steps", "3", "--batch", "8", "--warmup-steps", "1", "--device", "cpu", "--json"]
NEEDLE = ["--max-pairs", "3", "--values", "8", "--vocabulary", "20", "--test-size", "50"]


@pytest.mark.parametrize(
    ("trainable", "counts"),
    [
        ("norms", {"norm": 7 * 32}),
        # Per layer: q, k, v, out and mlp_out have 16 each, mlp_in 64; seven norms have 16.
        (
            "biases",
            {"norm": 7 * 16}
            | {f"attention/{part}": 3 * 16 for part in ("q", "k", "v", "out")}
            | {"mlp/mlp_in": 3 * 64, "mlp/mlp_out": 3 * 16},
        ),
        ("k", {"attention/k": 3 * (16 * 16 + 16)}),
        ("mlp", {"mlp/mlp_in": 3 * (16 * 64 + 64), "mlp/mlp_out": 3 * (16 * 64 + 16)}),
    ],
)
def test_counts_of_a_part(trainable, counts):
    assert trained_counts(SMALL, DIMS, trainable) == counts


def test_norms_and_biases_are_a_union():
    norms, biases, both = (set(trained_names(SMALL, DIMS, word)) for word in ("norms", "biases", "norms+biases"))
    assert both == norms | biases == set(trained_names(SMALL, DIMS, "norms, biases"))
    assert norms & biases == {name for name in norms if name.endswith("bias")}
    assert trained_names(SMALL, DIMS, "norms") == trained_names(SMALL, DIMS, "norm")


def test_biases_are_those_of_the_body():
    names = trained_names(LSTM(width=4, layers=1), DIMS, "biases")
    assert names == ["layer0.input.bias", "layer0.hidden.bias"], "the unembedding's is no part of the body"
    with pytest.raises(InputError, match="nothing trains: lstm has no norms; choose another part"):
        trained_names(LSTM(width=4), DIMS, "norms")


@dataclass(frozen=True)
class Fixed(Transformer):
    name: ClassVar[str] = "fixed"

    @property
    def fixed_roles(self):
        return ("attention/q",)


def test_a_fixed_part_trains_only_if_named():
    model = Fixed(width=16, layers=1)
    for word in ("all", "attention"):
        assert not any(".q." in name for name in trained_names(model, DIMS, word))
    assert trained_names(model, DIMS, "q") == ["block0.q.weight", "block0.q.bias"]
    assert set(trained_names(model, DIMS, "attention,q")) - set(trained_names(model, DIMS, "attention"))


@pytest.mark.parametrize("trainable", ["norms", "biases"])
def test_only_that_part_moves(trainable):
    runs = ice.train(TASK, SMALL, trainable, steps=3, batch=8, lr=0.1, warmup_steps=0, device="cpu")
    start = runs.config.initial(0)
    moved = {name for name, value in runs.parameters(0).items() if not torch.equal(value, start[name])}
    unread = {name for name in start if name.endswith("k.bias")}  # adds the same to all scores of a query
    assert moved | unread == set(trained_names(SMALL, runs.config.dims, trainable)) | unread


def test_a_comparison_of_parts(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = ["--trainable", "norms", "--trainable", "biases", "--trainable", "norms+biases", "--trainable", "q"]
    assert main(["compare", "needle", *NEEDLE, *SHORT, *flags, "--widths", "16", "--seeds", "1"]) == 0
    points = json.loads(capsys.readouterr().out.splitlines()[-1])["points"]
    assert [point["line"] for point in points] == ["norms", "biases", "norms+biases", "q"]


def test_train_announces_the_counts_of_a_part(tmp_path, capsys):
    out = ["--out", str(tmp_path)]
    assert main(["train", "needle", *NEEDLE, *SHORT, *out, "--width", "16", "--trainable", "norms"]) == 0
    assert "160 parameters train (norm 160), " in capsys.readouterr().err
