"""Training step by step: against torch's own AdamW, and over blocks of data."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
from small_runs import CPU, MODEL, TASK

import icecore as ice
from icecore.bench.language import RandomText
from icecore.models import LSTM, ModelDims, ParameterSpec, Transformer, initialize
from icecore.tasks import DecimalAddition, Imitation, ModularAddition
from icecore.training import Population, TrainingConfig
from icecore.training.population import losses, predict
from icecore.training.replay import fixed, tensors_of
from icecore.training.steps import Steps, copy_all
from icecore.training.stream import BatchStream, Stream

pytestmark = pytest.mark.shapes


@pytest.mark.parametrize("trainable", ["embeddings", "all"])
def test_steps_are_those_of_a_plain_loop_with_torchs_adamw(trainable):
    """In float64, where a gradient that should be 0 is, so that Adam does not blow its rounding up."""
    training = TrainingConfig(steps=8, batch=16, lr=1e-2, warmup_steps=3, weight_decay=0.1, clip=0.05)
    population = Population(MODEL, ModelDims(40, 100), (4,), trainable, CPU, dtype=torch.float64)
    steps, stream = Steps(population, training), Stream(TASK, 16, 0, CPU)
    plain = {name: value.double() for name, value in initialize(MODEL, ModelDims(40, 100), 4).items()}
    trained = {name: plain[name].requires_grad_() for name in population.trained}
    groups = [
        {"params": [one for one in trained.values() if one.ndim > 1], "weight_decay": 0.1},
        {"params": [one for one in trained.values() if one.ndim == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW([group for group in groups if group["params"]])
    for step in range(8):
        batch = stream.batch_at(step)
        steps.take(population.prepare(batch))
        loss = F.cross_entropy(MODEL.logits(plain, batch.tokens)[batch.scored], batch.targets[batch.scored])
        assert steps.loss.item() == pytest.approx(loss.item(), rel=1e-5)
        for group in optimizer.param_groups:
            group["lr"] = training.lr_at(step)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained.values(), training.clip)
        optimizer.step()
    for name, value in population.trained.items():
        assert torch.allclose(value[0], trained[name], rtol=0, atol=1e-7), name  # rates are float32


def test_no_block_of_data_comes_again():
    for task in (TASK, ModularAddition(modulus=11)):
        stream = Stream(task, 16, 3, CPU)
        first = [stream.batch_at(block * stream.batches_per_block).tokens for block in range(3)]
        assert not torch.equal(first[0], first[1])
        assert not torch.equal(first[1], first[2])


def test_the_train_accuracy_is_that_of_the_training_items():
    task = ModularAddition(modulus=11)
    runs = ice.train(task, MODEL, "unembed", steps=60, batch=100, lr=3e-2, warmup_steps=0)
    train = task.train_set()
    predictions, _ = predict(runs.population, train)
    right = (predictions[0, :, 1] == train.tokens.sum(dim=1) % 11).double().mean()
    assert runs.result["train_accuracy"] == [pytest.approx(right.item())]
    assert runs.result["train_accuracy"] != runs.accuracy


def test_a_test_loss_is_the_mean_over_scored_positions():
    batch = DecimalAddition(digits=2, scored="target-is-digit").test_set()[:8]
    population = Population(MODEL, ModelDims(31, 40), (0, 1), "embeddings", CPU)
    prepared = population.prepare(batch)
    expected = losses(population.logits(prepared), prepared.targets)
    _, loss = predict(population, batch, rows_at_once=3)  # rows have two or three scored positions
    assert torch.allclose(loss, expected)


@dataclass(frozen=True)
class OneOfTwo(Transformer):
    """Adds an expert's vector where a sequence begins with 0: most batches of one do not use it."""

    name: ClassVar[str] = "one-of-two"
    vectorizes: ClassVar[bool] = False

    def specs(self, dims):
        return {**super().specs(dims), "expert": ParameterSpec((self.width,), "mlp", 0.1)}

    def hidden(self, parameters, tokens, hook=None):
        found = super().hidden(parameters, tokens, hook)
        return found + parameters["expert"] if bool((tokens[:, 0] == 0).any()) else found


def test_what_a_batch_does_not_use_has_no_gradient_of_the_last():
    model, dims = OneOfTwo(width=16), ModelDims(40, 100)
    population = Population(model, dims, (0,), "all", CPU)
    steps = Steps(population, TrainingConfig(steps=4, batch=1, lr=1e-2, warmup_steps=1))
    batch = Stream(TASK, 1, 0, CPU).batch_at(0)
    for first, is_used in ((0, True), (1, False), (0, True)):
        batch.tokens[0, 0] = first
        steps.take(population.prepare(batch))
        assert bool((steps.gradient_of["expert"] != 0).any()) == is_used


UNEVEN = DecimalAddition(digits=2, scored="target-is-digit", test_size=50)  # two or three scored positions
IMITATED = Imitation(
    length=3, vocabulary=40, target=lambda tokens: F.one_hot(tokens[:, -1], 40).double().log_softmax(1)
)


@pytest.mark.parametrize("model", [MODEL, LSTM(width=16)], ids=lambda model: model.name)
@pytest.mark.parametrize("task", [TASK, UNEVEN, RandomText(80, 40), IMITATED], ids=lambda task: task.name)
def test_what_a_captured_step_reads_can_be_replaced_where_it_is(task, model):
    """A graph takes each step on copies of the first one's tensors: nothing that it reads may be left of that."""
    slot = BatchStream(Stream(task, 16, 0, CPU), model.engine, bucketed=True).at(0)
    (first,), (second,) = slot.step(slot.begin), slot.step(slot.begin + 1)
    population = Population(model, ModelDims(40, 100), (0, 1), "all", CPU, dtype=torch.float64)
    (group,) = population.groups
    before = group.losses_and_gradients(first)
    kept = fixed(first)
    copy_all(tensors_of([[kept]]), tensors_of([[second]]))
    for batch, expected in ((kept, group.losses_and_gradients(second)), (first, before)):
        loss, gradients = group.losses_and_gradients(batch)
        assert torch.equal(loss, expected[0])
        assert all(torch.equal(value, expected[1][name]) for name, value in gradients.items())
    assert not torch.equal(before[0], group.losses_and_gradients(second)[0])
