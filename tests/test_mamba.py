"""Mamba beside Hugging Face's."""

import math

import pytest
import torch

from icecore.errors import InputError
from icecore.models import Mamba, ModelDims, count_parameters, initialize, trained_names
from icecore.models.huggingface_bodies import from_mamba

pytestmark = pytest.mark.shapes
DIMS = ModelDims(vocab_size=11, n_positions=9)
TOKENS = torch.randint(11, (5, 7), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("model", [Mamba(16, 2), Mamba(24, 1, state=5)], ids=str)
def test_logits_equal_hugging_faces_both_ways(model):
    pytest.importorskip("transformers")
    generator = torch.Generator().manual_seed(1)
    parameters = {
        name: value + 0.3 * torch.randn(value.shape, generator=generator)
        for name, value in initialize(model, DIMS, 0).items()
    }
    network = model.to_huggingface(DIMS, parameters)
    with torch.no_grad():
        theirs = network(TOKENS).logits
    ours = model.logits(parameters, TOKENS)
    # Relative to the largest logit: sums of 48 terms in float32, in another order.
    assert torch.allclose(ours, theirs, atol=1e-5 * theirs.abs().max().item(), rtol=0)
    again, dims, back = from_mamba(network, 9)
    assert (again, dims) == (model, DIMS)
    assert back.keys() == parameters.keys()
    assert all(torch.equal(back[name], parameters[name]) for name in parameters)


def test_library_is_drawn_like_a_fresh_mamba():
    pytest.importorskip("transformers")
    model = Mamba(width=128, layers=1)
    network = model.to_huggingface(DIMS, initialize(model, DIMS, 0))
    fresh = type(network)(network.config)
    for (name, ours), theirs in zip(network.named_parameters(), fresh.parameters(), strict=True):
        tolerance = 6 / math.sqrt(2 * ours.numel())
        assert ours.std().item() == pytest.approx(theirs.std().item(), rel=tolerance, abs=1e-7), name
        assert ours.mean().item() == pytest.approx(theirs.mean().item(), abs=tolerance * theirs.std().item() + 1e-6), (
            name
        )
    a_log = dict(network.named_parameters())["backbone.layers.0.mixer.A_log"]
    assert torch.equal(a_log, dict(fresh.named_parameters())["backbone.layers.0.mixer.A_log"])


def test_counts_roles_and_weight_decay():
    model = Mamba(width=32, layers=2)
    counts = count_parameters(model, DIMS)
    inner = 64
    mixer = 2 * inner * 32 + 5 * inner + (2 + 32) * inner + 3 * inner + 16 * inner + inner + 32 * inner
    assert counts["mixer"] == 2 * mixer
    assert counts["norm"] == 3 * 32
    assert trained_names(model, DIMS, "decay") == ["block0.log_decay", "block1.log_decay"]
    assert trained_names(model, DIMS, "biases") == [
        f"block{layer}.{part}.bias" for layer in (0, 1) for part in ("convolution", "step")
    ]
    specs = model.specs(DIMS)
    assert not specs["block0.log_decay"].decays
    assert specs["block0.in.weight"].decays


def test_impossible_sizes_are_refused():
    with pytest.raises(InputError, match="state must be at least 1, got 0"):
        Mamba(state=0)
    with pytest.raises(InputError, match="gain must be positive"):
        Mamba(gain=-1.0)
    model = Mamba(width=16, learned_positions=True)
    with pytest.raises(InputError, match="cannot be exported"):
        model.to_huggingface(DIMS, initialize(model, DIMS, 0))
