"""The engines of Llama, linear attention, DeltaNet and Mamba give what the models' definitions give."""

import dataclasses
from typing import Any

import pytest
import torch
from references import reference_results, results_by_place, shaken

from icecore.models import GRU, DeltaNet, LinearAttention, Llama, Mamba, ModelDims, Transformer
from icecore.models.engines import ReferenceEngine, ShapeBuckets, scan
from icecore.models.engines.mixers import inverse_of_one_plus
from icecore.tasks import Batch, DecimalAddition, Needle, Parentheses
from icecore.training import Population, Precision
from icecore.training.batches import prepare_batches

pytestmark = pytest.mark.shapes
CPU = torch.device("cpu")
NEEDLE = Needle(max_pairs=3, values=20, vocabulary=40, test_size=200)
SUM = DecimalAddition(digits=2, scored="target-is-digit", test_size=50)
SMALL: dict[str, Any] = {"width": 16, "init": "gaussian"}
BODIES: dict[str, Any] = {
    "llama": Llama(**SMALL),
    "llama, shared keys": Llama(**SMALL, heads_per_key=2, learned_positions=True),
    "none": LinearAttention(**SMALL),
    "none, rotary": LinearAttention(**SMALL, rotary=True),
    "fixed": LinearAttention(**SMALL, decay="fixed"),
    "channel": LinearAttention(**SMALL, decay="channel", learned_positions=True),
    "head": LinearAttention(**SMALL, decay="head"),
    "mamba": Mamba(**SMALL, state=4, layers=2),
    "mamba, positions": Mamba(**SMALL, state=4, layers=2, learned_positions=True),
    "deltanet": DeltaNet(**SMALL),
    "deltanet, negative": DeltaNet(**SMALL, negative_eigenvalues=True),
    "gru": GRU(**SMALL),
    "gru, positions": GRU(**SMALL, learned_positions=True),
    "random attention": Transformer(width=16, init="matched", attention="random"),
}
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-3}  # of each tensor's largest value; norms of small outputs amplify


def population_of(model: Any, trainable: str, task: Any, dtype: torch.dtype) -> Population:
    """Two seeds with noise on all that trains."""
    dims = ModelDims(task.vocab_size, 40)
    return shaken(Population(model, dims, (0, 1), trainable, CPU, dtype=dtype))


def assert_same(ours: dict[str, torch.Tensor], reference: dict[str, torch.Tensor], dtype: torch.dtype) -> None:
    assert ours.keys() == reference.keys()
    for name, value in ours.items():
        difference = (value - reference[name]).abs().max()
        assert difference <= TOLERANCE[dtype] * reference[name].abs().max(), name


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("trainable", ["embeddings", "all"])
@pytest.mark.parametrize("task", [NEEDLE, SUM, Parentheses(max_pairs=8, test_size=50)], ids=lambda task: task.name)
@pytest.mark.parametrize("body", BODIES)
def test_an_engine_gives_the_reference_logits_losses_and_gradients(body, task, trainable, dtype):
    population = population_of(BODIES[body], trainable, task, dtype)
    assert population.engine is not ReferenceEngine
    batch = task.sample(40, torch.Generator().manual_seed(0))
    assert_same(results_by_place(population, batch), reference_results(population, batch), dtype)


def test_a_mixing_matrix_has_the_reference_gradient_if_it_trains():
    windows = torch.randint(9, (3, 80), generator=torch.Generator().manual_seed(0))
    whole = Batch(windows, windows, torch.ones_like(windows, dtype=torch.bool))
    model, dims = BODIES["random attention"], ModelDims(40, 100)
    population = shaken(Population(model, dims, (0, 1), "all,mixing", CPU, dtype=torch.float64))
    for batch in (NEEDLE.sample(20, torch.Generator().manual_seed(0)), whole):
        ours, reference = results_by_place(population, batch), reference_results(population, batch)
        assert "block1.mixing" in ours
        assert_same(ours, reference, torch.float64)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("body", BODIES)
def test_engines_agree_at_every_number_of_layers(body, layers):
    population = population_of(dataclasses.replace(BODIES[body], layers=layers), "all", NEEDLE, torch.float64)
    batch = NEEDLE.sample(20, torch.Generator().manual_seed(0))
    assert_same(results_by_place(population, batch), reference_results(population, batch), torch.float64)


@pytest.mark.parametrize("body", BODIES)
def test_steps_of_rounded_sizes_are_the_reference_steps(body):
    """Sizes that repeat, as a captured step needs them, change nothing."""
    model = BODIES[body]
    population = population_of(model, "all", SUM, torch.float64)
    batch = SUM.sample(40, torch.Generator().manual_seed(0))
    prepared = prepare_batches(model.engine, SUM.vocab_size, batch, 20, ShapeBuckets(2, 2))
    first, second = prepared.step(0), prepared.step(1)
    assert first.inputs.size() == second.inputs.size()
    for part, step in ((batch[:20], first), (batch[20:], second)):
        assert_same(results_by_place(population, step), reference_results(population, part), torch.float64)


@pytest.mark.parametrize("length", [1, 2, 7, 16])
def test_the_inverse_by_blocks_is_the_inverse(length):
    lower = torch.randn(3, length, length, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).tril(-1)
    lower.requires_grad_()
    plain = torch.linalg.inv(torch.eye(length, dtype=torch.float64) + lower)
    factor = torch.randn_like(plain)
    ours = inverse_of_one_plus(lower)
    assert torch.allclose(ours, plain, rtol=1e-9)
    (found,), (expected,) = (torch.autograd.grad((each * factor).sum(), lower) for each in (ours, plain))
    assert torch.allclose(found, expected.tril(-1), rtol=1e-8, atol=1e-10)


def test_tiles_of_sequences_do_not_change_a_scan(monkeypatch):
    monkeypatch.setitem(scan.STATES_AT_ONCE, "cpu", 7 * 2 * 32 * 4)  # 7 of 40 sequences
    task = Parentheses(max_pairs=8, test_size=50)
    population = population_of(BODIES["mamba"], "all", task, torch.float64)
    batch = task.sample(40, torch.Generator().manual_seed(0))
    assert_same(results_by_place(population, batch), reference_results(population, batch), torch.float64)


@pytest.mark.parametrize("body", BODIES)
def test_bfloat16_computes_nearly_the_same(body):
    """Weights and activations in bfloat16, sums of decays and states in float32."""
    model, batch = BODIES[body], NEEDLE.sample(40, torch.Generator().manual_seed(0))
    dims = ModelDims(NEEDLE.vocab_size, 40)
    exact, rounded = (
        shaken(Population(model, dims, (0, 1), "all", CPU, precision)) for precision in (Precision.fp32, Precision.bf16)
    )
    loss, lower = (results_by_place(population, batch)["loss"] for population in (exact, rounded))
    assert torch.allclose(loss, lower, rtol=0.02)
