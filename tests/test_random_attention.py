"""A transformer whose attention is a fixed random matrix of the seed."""

import json

import pytest
import torch
from small_runs import SHORT, TASK

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.models import ModelDims, Transformer, initialize, trained_names
from icecore.models.check import require_model

pytestmark = pytest.mark.shapes
DIMS = ModelDims(vocab_size=11, n_positions=9)
MODEL = Transformer(width=8, layers=1, heads=2, attention="random")
TOKENS = torch.randint(11, (5, 7), generator=torch.Generator().manual_seed(0))


def test_the_matrix_is_mixits():
    """Lower triangles whose rows sum to 1, near the identity, another for every head and seed."""
    mixing = initialize(MODEL, ModelDims(11, 200), 0)["block0.mixing"]
    assert torch.equal(mixing, mixing.tril())
    assert torch.allclose(mixing.sum(dim=-1), torch.ones(2, 200), atol=1e-5)
    below = mixing[:, 150:, :100]  # far from the diagonal, and with many visible positions
    assert below.std().item() == pytest.approx((200 * 4) ** -0.5, rel=0.05)
    assert not torch.allclose(mixing[0], mixing[1])
    assert not torch.equal(mixing, initialize(MODEL, ModelDims(11, 200), 1)["block0.mixing"])


def test_a_head_mixes_values_by_its_matrix():
    parameters = initialize(MODEL, DIMS, 0)
    values = MODEL.trace(parameters, TOKENS)
    x = torch.nn.functional.layer_norm(values["embedding"], (8,))
    value = x @ parameters["block0.v.weight"].T
    heads = [parameters["block0.mixing"][head, :7, :7] @ value[..., 4 * head : 4 * head + 4] for head in (0, 1)]
    expected = torch.cat(heads, dim=-1) @ parameters["block0.out.weight"].T
    assert torch.allclose(values["block0.attention_out"], expected, atol=1e-6)
    assert tuple(values) == (*MODEL.activations, "logits")
    require_model(MODEL, DIMS, 7, may_look_ahead=False)


def test_the_matrix_stays_fixed_unless_it_is_named():
    assert "block0.mixing" not in trained_names(MODEL, DIMS, "all")
    assert trained_names(MODEL, DIMS, "mixing") == ["block0.mixing"]
    with pytest.raises(InputError, match="does not read 'q,k'"):
        trained_names(MODEL, DIMS, "q,k")
    runs = ice.train(TASK, Transformer(width=16, attention="random"), "all", device="cpu", **SHORT)
    start, end = runs.config.initial(1), runs.parameters(1)
    assert torch.equal(start["block1.mixing"], end["block1.mixing"])
    assert not torch.equal(start["block1.v.weight"], end["block1.v.weight"])


def test_other_transformers_have_no_such_matrix():
    assert not any("mixing" in name for name in Transformer(width=8).specs(DIMS))


def test_it_trains_from_the_command_line(tmp_path, capsys):
    flags = ["--max-pairs", "3", "--values", "8", "--vocabulary", "20", "--test-size", "20", "--width", "16"]
    flags += ["--steps", "3", "--batch", "8", "--warmup-steps", "1", "--device", "cpu", "--attention", "random"]
    assert main(["train", "needle", *flags, "--out", str(tmp_path), "--json"]) == 0
    run = json.loads(capsys.readouterr().out.splitlines()[-1])["run"]
    assert main(["evaluate", run]) == 0
    assert main(["train", "needle", *flags[:-1], "rando", "--out", str(tmp_path)]) == 2
    assert "unknown value of attention 'rando': did you mean 'random'" in capsys.readouterr().err
