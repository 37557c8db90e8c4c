"""The engines of short sequences give what the models' definitions give: logits, losses and gradients."""

import pytest
import torch
from references import reference_results, results_by_place, shaken

from icecore.models import LSTM, ModelDims, Transformer
from icecore.models.engines import ShapeBuckets
from icecore.models.engines.fused import Adjoin
from icecore.models.engines.recurrent import TimeMajorTokens
from icecore.models.engines.transformer import TransformerEngine
from icecore.tasks import Batch, DecimalAddition, ModularAddition, Needle, Parentheses, Task
from icecore.training import Population
from icecore.training.batches import prepare_batches
from icecore.training.population import predict

pytestmark = pytest.mark.shapes

CPU = torch.device("cpu")
TASK = Needle(max_pairs=3, values=20, vocabulary=40, test_size=200)


def one_batch(task: Task, count: int) -> Batch:
    return task.sample(count, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("attention", ["softmax", "prefix-sum"])
@pytest.mark.parametrize("trainable", ["embeddings", "unembed", "embed", "token+unembed", "all"])
@pytest.mark.parametrize(
    "task",
    [
        TASK,
        DecimalAddition(digits=2, test_size=50),
        DecimalAddition(digits=2, scored="target-is-digit", test_size=50),
        Parentheses(max_pairs=8, test_size=50),
        ModularAddition(modulus=11),
    ],
    ids=lambda task: task.name,
)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_shared_prefixes_give_the_reference_logits_and_gradients(task, trainable, attention, layers):
    model = Transformer(width=16, layers=layers, init="matched", attention=attention)
    population = shaken(Population(model, ModelDims(task.vocab_size, 40), (0, 1), trainable, CPU, dtype=torch.float64))
    batch = one_batch(task, 40)
    ours, reference = results_by_place(population, batch), reference_results(population, batch)
    assert ours.keys() == reference.keys()
    for name, value in ours.items():
        assert torch.allclose(value, reference[name], rtol=1e-9, atol=1e-12), name  # float64


def test_a_frozen_body_that_is_loaded_anew_is_computed_with():
    model, batch = Transformer(width=16, init="matched"), one_batch(TASK, 40)
    population = Population(model, ModelDims(TASK.vocab_size, 40), (0, 1), "embeddings", CPU, dtype=torch.float64)
    _, before = predict(population, batch)
    changed = {name: torch.randn_like(population.frozen[name]) for name in ("block0.v.weight", "block0.out.bias")}
    population.load(changed)
    _, after = predict(population, batch)
    assert not torch.allclose(after, before)
    ours, reference = results_by_place(population, batch)["loss"], reference_results(population, batch)["loss"]
    assert torch.allclose(ours, reference, rtol=1e-9)


@pytest.mark.parametrize("trainable", ["embeddings", "all"])
def test_an_lstm_packed_by_time_gives_the_reference_logits_and_gradients(trainable):
    model = LSTM(width=16)
    population = shaken(Population(model, ModelDims(40, 40), (0, 1), trainable, CPU, dtype=torch.float64))
    batch = one_batch(TASK, 40)
    ours, reference = results_by_place(population, batch), reference_results(population, batch)
    assert ours.keys() == reference.keys()
    for name, value in ours.items():
        assert torch.allclose(value, reference[name], rtol=1e-9, atol=1e-12), name


@pytest.mark.parametrize("task", [TASK, DecimalAddition(digits=2, scored="target-is-digit", test_size=50)], ids=str)
def test_lstm_steps_of_one_size_are_the_reference_steps(task):
    """Sequences that go on after what is read of them, and those with fewer scored positions than others."""
    model, buckets = LSTM(width=16), ShapeBuckets(4, 2)
    population = shaken(Population(model, ModelDims(task.vocab_size, 40), (0, 1), "all", CPU, dtype=torch.float64))
    batch = one_batch(task, 80)
    first, second = (
        prepare_batches(model.engine, task.vocab_size, part, 20, buckets) for part in (batch[:40], batch[40:])
    )
    for index, prepared in enumerate([first.step(0), first.step(1), second.step(0), second.step(1)]):
        assert isinstance(prepared.inputs, TimeMajorTokens)
        part = batch[20 * index : 20 * index + 20]
        assert len(prepared.inputs.tokens) > part.lengths.sum() or task is not TASK
        ours, reference = results_by_place(population, prepared), reference_results(population, part)
        for name, value in ours.items():
            assert torch.allclose(value, reference[name], rtol=1e-9, atol=1e-12), name
    assert buckets.times is not None
    before = buckets.times
    assert buckets.of_times(before[None] - 1, 20) is before, "what fits changes nothing"
    assert (buckets.of_times(before[None] + 1, 30) > before)[before > 0].all()


@pytest.mark.parametrize("are_adjacent", [True, False])
def test_what_is_adjoined_is_what_is_concatenated(are_adjacent):
    rows = torch.arange(2 * 40.0, dtype=torch.float64).view(2, 40)
    spans = (
        (slice(4, 10), slice(10, 22), slice(22, 25)) if are_adjacent else (slice(4, 10), slice(12, 24), slice(24, 27))
    )
    parts = [rows[:, span].unflatten(1, (-1, 3)).detach().requires_grad_() for span in spans]
    ours, plain = Adjoin.apply(*parts), torch.cat(parts, dim=1)
    assert torch.equal(ours, plain)
    assert (ours.untyped_storage().data_ptr() == rows.untyped_storage().data_ptr()) is are_adjacent
    factor = torch.randn(plain.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for found, expected in zip(
        torch.autograd.grad((ours**2 * factor).sum(), parts),
        torch.autograd.grad((plain**2 * factor).sum(), parts),
        strict=True,
    ):
        assert torch.equal(found, expected)


def test_neighbours_by_chance_are_copied():
    """Two allocations may lie one after the other, as on a GPU they do: no view reaches over both."""
    memory = bytearray(2 * 96)
    first, second = (torch.frombuffer(memory, dtype=torch.float64, count=12, offset=begin) for begin in (0, 96))
    parts = [first.view(1, 4, 3).fill_(1.0), second.view(1, 4, 3).fill_(2.0)]
    assert parts[0].data_ptr() + parts[0].nbytes == parts[1].data_ptr()
    assert torch.equal(Adjoin.apply(*parts), torch.cat(parts, dim=1))


def test_a_body_in_training_is_joined_without_a_copy():
    population = Population(Transformer(width=16), ModelDims(9, 4), (0, 1), "all", CPU)
    (group,) = population.groups
    assert isinstance(group.network, TransformerEngine)
    joined = group.network.body("qkv")["block0.qkv.weight"]
    assert joined.untyped_storage().data_ptr() == population.values[True].untyped_storage().data_ptr()
    assert torch.equal(joined[1, 16:32], population.trained["block0.k.weight"][1])
