"""Llama beside Hugging Face's."""

import math
from typing import Any

import pytest
import torch

from icecore.errors import InputError
from icecore.models import Llama, ModelDims, count_parameters, initialize, trained_names
from icecore.models.huggingface_bodies import from_llama

pytestmark = pytest.mark.shapes
DIMS = ModelDims(vocab_size=11, n_positions=9)
TOKENS = torch.randint(11, (5, 7), generator=torch.Generator().manual_seed(0))


def moved(parameters: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """All parameters different from one, so that a mix-up cannot hide."""
    generator = torch.Generator().manual_seed(1)
    return {name: value + 0.3 * torch.randn(value.shape, generator=generator) for name, value in parameters.items()}


@pytest.mark.parametrize(
    "model", [Llama(16, 3), Llama(24, 1, 4, heads_per_key=2), Llama(8, 2, 4, heads_per_key=4)], ids=str
)
def test_logits_equal_hugging_faces_both_ways(model):
    pytest.importorskip("transformers")
    parameters = moved(initialize(model, DIMS, 0))
    network = model.to_huggingface(DIMS, parameters)
    with torch.no_grad():
        theirs = network(TOKENS).logits
    # Logits are of order 1 to 10; float32 has 7 digits, and sums of 64 terms lose about one.
    assert torch.allclose(model.logits(parameters, TOKENS), theirs, atol=2e-5, rtol=0)
    again, dims, back = from_llama(network)
    assert (again, dims) == (model, DIMS)
    assert back.keys() == parameters.keys()
    assert all(torch.equal(back[name], parameters[name]) for name in parameters)


def test_library_is_drawn_like_a_fresh_llama():
    pytest.importorskip("transformers")
    model = Llama(width=128)
    network = model.to_huggingface(DIMS, initialize(model, DIMS, 0))
    for (name, ours), theirs in zip(
        network.named_parameters(), type(network)(network.config).parameters(), strict=True
    ):
        tolerance = 6 / math.sqrt(2 * ours.numel())
        assert ours.std().item() == pytest.approx(theirs.std().item(), rel=tolerance, abs=1e-7), name


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"hidden_act": "gelu"}, "LlamaConfig.hidden_act must be silu"),
        ({"rms_norm_eps": 1e-5}, "rms_norm_eps must be 1e-06, .*, got 1e-05"),
        ({"intermediate_size": 64}, "intermediate_size must be 48, .*, got 64"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, "theta 10,000, got"),
    ],
)
def test_a_llama_that_computes_something_else_is_refused(setting, message):
    pytest.importorskip("transformers")
    model = Llama(width=16)
    network: Any = model.to_huggingface(DIMS, initialize(model, DIMS, 0))
    network.config.update(setting)
    with pytest.raises(InputError, match=message):
        from_llama(network)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 10}, "multiple of heads, got width 10 with 4 heads"),
        ({"width": 12}, "heads of an even width, got width 12 with 4 heads"),
        ({"heads_per_key": 3}, "heads must be a multiple of heads_per_key, got 4 heads with 3 per key"),
    ],
)
def test_impossible_sizes_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        Llama(**settings)


def test_learned_positions_are_no_llama():
    model = Llama(width=16, learned_positions=True)
    with pytest.raises(InputError, match="cannot be exported"):
        model.to_huggingface(DIMS, initialize(model, DIMS, 0))


def test_counts_and_roles():
    model = Llama(width=24, layers=3, heads_per_key=2)
    counts = count_parameters(model, DIMS)
    assert counts["attention"] == 3 * (2 * 24 * 24 + 2 * 12 * 24)
    assert counts["mlp"] == 3 * 3 * 24 * 64
    assert counts["norm"] == 7 * 24
    assert trained_names(model, DIMS, "norms") == trained_names(model, DIMS, "norm")
    assert trained_names(model, DIMS, "k") == [f"block{layer}.k.weight" for layer in range(3)]
    with pytest.raises(InputError, match="llama has no biases"):
        trained_names(model, DIMS, "biases")


def test_keys_of_another_position_are_rotated():
    """The same tokens in another order give another last output, without learned positions."""
    model = Llama(width=16, init="gaussian")
    parameters = initialize(model, DIMS, 0)
    a, b = (model.logits(parameters, torch.tensor([tokens]))[0, -1] for tokens in ([1, 2, 3, 4], [3, 2, 1, 4]))
    assert not torch.allclose(a, b, atol=1e-4)
