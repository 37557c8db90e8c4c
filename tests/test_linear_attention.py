"""Linear attention and DeltaNet beside recurrences, token by token, in float64."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from icecore.models import DeltaNet, LinearAttention, ModelDims, count_parameters, initialize, trained_names
from icecore.models.check import require_model

pytestmark = pytest.mark.shapes
DIMS = ModelDims(vocab_size=11, n_positions=40)
TOKENS = torch.randint(11, (3, 37), generator=torch.Generator().manual_seed(0))


def recurrent_logits(model: Any, parameters: dict[str, torch.Tensor], tokens: torch.Tensor) -> torch.Tensor:
    """The whole body for one sequence, head by head and token by token, in the recurrent form."""

    def rms(x):
        return x / (x.square().mean() + 1e-6).sqrt()

    size = model.width // model.heads
    states = [[torch.zeros(size, size, dtype=torch.float64) for _ in range(model.heads)] for _ in range(model.layers)]
    outputs = []
    for time, token in enumerate(tokens.tolist()):
        stream = parameters["token"][token]
        if model.learned_positions:
            stream = stream + parameters["position"][time]
        for layer in range(model.layers):

            def of(name, layer=layer):
                return parameters[f"block{layer}.{name}"]

            x = rms(stream) * of("mixer_norm.weight")
            heads = [step(model, of, x, time, head, states[layer]) for head in range(model.heads)]
            mixed = torch.cat([rms(each) for each in heads])
            if isinstance(model, LinearAttention):
                mixed = mixed * F.silu(of("gate.weight") @ x)
            stream = stream + of("out.weight") @ mixed
            x = rms(stream) * of("mlp_norm.weight")
            stream = stream + of("mlp_out.weight") @ (F.silu(of("mlp_gate.weight") @ x) * (of("mlp_in.weight") @ x))
        outputs.append(parameters["unembed"] @ (rms(stream) * parameters["final_norm.weight"]))
    return torch.stack(outputs)


def step(model: Any, of: Any, x: torch.Tensor, time: int, head: int, states: list[torch.Tensor]) -> torch.Tensor:
    """Update one head's state, (key, value), and read it."""
    size = model.width // model.heads
    own = slice(head * size, head * size + size)
    q, k, v = (of(f"{part}.weight")[own] @ x for part in ("q", "k", "v"))
    if isinstance(model, DeltaNet):
        q, k, v = F.silu(q), F.silu(k), F.silu(v)
        q, k = (each / (each.square().sum() + 1e-6).sqrt() for each in (q, k))
        rate = torch.sigmoid(of("rate.weight")[head] @ x) * (2 if model.negative_eigenvalues else 1)
        states[head] = states[head] + rate * torch.outer(k, v - k @ states[head])
        return (q / math.sqrt(size)) @ states[head]
    if model.rotary:
        turn = torch.polar(
            torch.ones(size // 2, dtype=torch.float64),
            time * 10_000.0 ** (-torch.arange(size // 2, dtype=torch.float64) / (size // 2)),
        )
        turned = [torch.complex(each[: size // 2], each[size // 2 :]) * turn for each in (q, k)]
        q, k = (torch.cat([each.real, each.imag]) for each in turned)
    decay: Any = 1.0
    if model.decay == "fixed":
        decay = torch.sigmoid(of("decay")[head])
    elif model.decay == "channel":
        gate = of("decay_out.weight") @ (of("decay_in.weight") @ x) + of("decay_out.bias")
        decay = (torch.sigmoid(gate[own]) ** (1 / 16))[:, None]
    elif model.decay == "head":
        delta = F.softplus(of("step.weight")[head] @ x + of("step.bias")[head])
        decay, v = torch.exp(-delta * torch.exp(of("log_rate")[head])), delta * v
    states[head] = decay * states[head] + torch.outer(k, v)
    return (q / math.sqrt(size)) @ states[head]


BODIES = [
    *(LinearAttention(16, 2, 2, "gaussian", decay=decay) for decay in ("none", "fixed", "channel", "head")),
    LinearAttention(16, 1, 2, decay="fixed", rotary=True, learned_positions=True),
    DeltaNet(16, 2, 2, "gaussian"),
    DeltaNet(16, 1, 4, "matched", negative_eigenvalues=True),
]


@pytest.mark.parametrize("model", BODIES, ids=str)
def test_logits_are_those_of_the_recurrence(model):
    generator = torch.Generator().manual_seed(1)
    parameters = {
        name: value.double() + 0.3 * torch.randn(value.shape, generator=generator, dtype=torch.float64)
        for name, value in initialize(model, DIMS, 0).items()
    }
    ours = model.logits(parameters, TOKENS[:2])
    expected = torch.stack([recurrent_logits(model, parameters, row) for row in TOKENS[:2]])
    # Float64 has 15 digits; rotary angles and norms lose a few.
    assert torch.allclose(ours, expected, atol=1e-9 * expected.abs().max().item(), rtol=0)


@pytest.mark.parametrize("decay", ["fixed", "channel", "head"])
def test_each_decay_does_what_engines_assume(decay):
    require_model(LinearAttention(16, decay=decay), DIMS, 20, may_look_ahead=False)


def test_strong_decays_stay_finite():
    """Every exponent is at most zero, so no decay overflows."""
    model = LinearAttention(16, decay="channel")
    parameters = initialize(model, DIMS, 0)
    parameters["block0.decay_out.bias"] = torch.full((16,), -1e4)
    assert model.logits(parameters, TOKENS).isfinite().all()


def test_library_decays_are_retnets():
    parameters = initialize(LinearAttention(16, decay="fixed"), DIMS, 0)
    assert torch.allclose(parameters["block0.decay"].sigmoid(), 1 - 2.0 ** (-5 - torch.arange(4)))


def test_counts_and_roles():
    model = LinearAttention(16, layers=3, decay="fixed")
    assert count_parameters(model, DIMS)["attention"] == 3 * (5 * 16 * 16 + 4)
    assert "block0.decay" not in trained_names(model, DIMS, "all")
    assert trained_names(model, DIMS, "decay") == [f"block{layer}.decay" for layer in range(3)]
    assert "block0.decay_out.bias" in trained_names(LinearAttention(16, decay="channel"), DIMS, "all")
    assert count_parameters(DeltaNet(16, layers=3), DIMS)["attention"] == 3 * (4 * 16 * 16 + 4 * 16)
