"""The GRU beside PyTorch's."""

import math

import pytest
import torch

from icecore.models import GRU, ModelDims, count_parameters, initialize

DIMS = ModelDims(vocab_size=11, n_positions=9)


@pytest.mark.parametrize("positions", [False, True])
def test_logits_equal_torchs(positions):
    model = GRU(width=12, layers=2, learned_positions=positions)
    parameters = initialize(model, DIMS, 0)
    network = torch.nn.GRU(12, 12, 2, batch_first=True)
    ours = [value for name, value in parameters.items() if name.startswith("layer")]
    with torch.no_grad():
        for theirs, value in zip(network.parameters(), ours, strict=True):
            theirs.copy_(value)
    tokens = torch.randint(11, (5, 7), generator=torch.Generator().manual_seed(0))
    embedded = parameters["token"][tokens] + (parameters["position"][:7] if positions else 0)
    expected = network(embedded)[0] @ parameters["unembed"].T + parameters["unembed_bias"]
    assert torch.allclose(model.logits(parameters, tokens), expected, atol=1e-6)


def test_it_is_drawn_like_torchs():
    parameters = initialize(GRU(width=64), ModelDims(500, 9), 0)
    assert parameters.pop("token").std().item() == pytest.approx(1, rel=0.02)
    for name, value in parameters.items():
        assert 0.9 / 8 < value.abs().max().item() <= 1 / 8, name
    drawn = initialize(GRU(width=64, init="gaussian"), ModelDims(500, 9), 0)["layer1.hidden.weight"]
    assert drawn.std().item() == pytest.approx(1 / 8, rel=4 / math.sqrt(2 * drawn.numel()))  # four standard errors


def test_counts():
    assert count_parameters(GRU(width=16, layers=3), DIMS)["recurrent"] == 3 * 2 * (3 * 16 * 16 + 3 * 16)
