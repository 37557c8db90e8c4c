"""Every shipped body: it trains, resumes, is looked into, and looks at nothing ahead."""

import json
from typing import Any

import pytest
import torch
from small_runs import SHORT, TASK, Stop, same_weights, stop_after

import icecore as ice
from icecore.cli import main
from icecore.models import MODELS, SHIPPED, ModelDims, count_parameters, initialize, trained_names
from icecore.models.check import require_model

pytestmark = pytest.mark.shapes
DIMS = ModelDims(vocab_size=11, n_positions=9)
NEW = [model for model in SHIPPED if model.name not in ("transformer", "lstm")]
NEEDLE = ["needle", "--max-pairs", "3", "--values", "8", "--vocabulary", "20", "--test-size", "20"]
SMALL = ["--steps", "3", "--batch", "8", "--warmup-steps", "1", "--device", "cpu", "--json"]


def made(model: Any, **settings: Any) -> Any:
    return model(width=16, **settings)


@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("init", ["library", "matched", "gaussian"])
@pytest.mark.parametrize("model", NEW, ids=lambda model: model.name)
def test_a_body_does_what_engines_assume(model, init, positions):
    body = made(model, init=init, learned_positions=positions)
    require_model(body, DIMS, 7, may_look_ahead=False)
    tokens = torch.randint(11, (5, 7), generator=torch.Generator().manual_seed(0))
    assert body.logits(initialize(body, DIMS, 0), tokens).isfinite().all()
    counts = count_parameters(body, DIMS)
    assert counts["position"] == (9 * 16 if positions else 0)
    assert counts["token"] == 11 * 16
    trained = set(trained_names(body, DIMS, "embeddings"))
    assert trained - {"unembed_bias"} == {"token", "unembed"} | ({"position"} if positions else set())


@pytest.mark.parametrize("model", NEW, ids=lambda model: model.name)
def test_a_hook_sees_and_replaces_every_activation(model):
    body = made(model)
    parameters = initialize(body, DIMS, 0)
    tokens = torch.randint(11, (2, 7), generator=torch.Generator().manual_seed(0))
    values = body.trace(parameters, tokens)
    assert tuple(values) == (*body.activations, "logits")
    assert torch.allclose(values["logits"], body.logits(parameters, tokens), atol=1e-6)
    assert all(values[name].shape == (2, 7, 16) for name in body.streams)
    for name in body.activations:
        changed = body.hidden(parameters, tokens, lambda at, value, name=name: value * 2 + 1 if at == name else value)
        assert not torch.allclose(body.unembed(parameters, changed), values["logits"]), name


@pytest.mark.parametrize("model", NEW, ids=lambda model: model.name)
def test_a_stopped_run_resumes_to_the_same_bits(model, tmp_path):
    training: Any = SHORT | {"steps": 6}
    whole: Any = ice.train(TASK, made(model), "all", out=tmp_path / "whole", **training)
    with pytest.raises(Stop):
        ice.train(
            TASK,
            made(model),
            "all",
            out=tmp_path / "stopped",
            checkpoint_every=2,
            on_progress=stop_after(4),
            **training,
        )
    again: Any = ice.train(TASK, made(model), "all", out=tmp_path / "stopped", resume=True, **training)
    assert same_weights(whole.path, again.path)


INSIDE = [(model.name, ["--init", "matched", "--learned-positions", "true"]) for model in NEW]
INSIDE += [("linear-attention", ["--decay", decay]) for decay in ("fixed", "channel", "head")]
INSIDE += [("transformer", ["--attention", "random"]), ("lstm", [])]
OWN = """
def sizes(model, parameters, batch):
    values = model.trace(parameters, batch.tokens)
    return {name: float(values[name].square().mean()) for name in (*model.activations, "logits")}
"""


@pytest.mark.parametrize(("model", "flags"), INSIDE, ids=lambda each: each if isinstance(each, str) else each[-1:])
def test_from_training_to_a_look_inside(model, flags, tmp_path, capsys, monkeypatch):
    """All analyses and a measurement of one's own, which traces every activation, trained and untrained."""
    monkeypatch.setattr("icecore.reporting.inside.readout.SAMPLE", 200)
    monkeypatch.setattr("icecore.analysis.readout.LOGISTIC_ITERATIONS", 4)
    (tmp_path / "own.py").write_text(OWN)
    flags = ["--model", model, "--width", "16", *flags]
    assert main(["train", *NEEDLE, *SMALL, *flags, "--out", str(tmp_path)]) == 0
    run = json.loads(capsys.readouterr().out.splitlines()[-1])["run"]
    assert main(["evaluate", run]) == 0
    streams = made(MODELS[model]).streams
    what = f"variance,causal,readout,{tmp_path / 'own.py'}:sizes"
    capsys.readouterr()
    assert main(["analyze", run, "--what", what, "--items", "20", "--activation", streams[1], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["analyses"]
    assert tuple(found["variance"]["trained"]) == streams
    assert {tuple(curve["places"]) for curve in found["causal"]["curves"]} == {streams[1:2]}
    assert [one["kind"] for one in found["readout"]["readouts"]] == ["ridge", "logistic"]
    assert set(streams) <= found["sizes"]["trained"].keys()


def test_bodies_are_compared_under_one_protocol(tmp_path, capsys):
    names = [model.name for model in NEW]
    bodies = [word for name in ("transformer", *names) for word in ("--model", name)]
    flags = [*bodies, "--widths", "16", "--init", "matched", "--trainable", "embeddings", "--seeds", "1"]
    assert main(["compare", *NEEDLE, *SMALL, *flags, "--out", str(tmp_path)]) == 0
    points = json.loads(capsys.readouterr().out.splitlines()[-1])["points"]
    assert [point["line"] for point in points] == ["Random", *(f"Random, {name}" for name in names)]


def test_a_setting_of_another_body_is_refused(capsys):
    assert main(["train", *NEEDLE, "--model", "gru", "--heads", "2"]) == 2
    assert capsys.readouterr().err == "error: the model gru has no heads; drop --heads\n"
    assert set(MODELS) >= {model.name for model in NEW}
