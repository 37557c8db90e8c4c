"""On a GPU: the same streams and the same training, where there is one."""

import pytest
import torch
from references import reference_results, results_by_place, shaken

import icecore as ice
from icecore.bench.language import RandomText
from icecore.models import LSTM, ModelDims, Transformer
from icecore.tasks import DecimalAddition, ModularAddition, Needle, Parentheses
from icecore.tasks.base import held_out_of
from icecore.training import Population, Precision, TrainingConfig
from icecore.training.imitation_target import Target
from icecore.training.replay import Replay
from icecore.training.steps import Steps
from icecore.training.stream import BatchStream, Stream

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
TASKS = [
    task_class(**task_class.presets[preset])
    for task_class in (Needle, DecimalAddition, Parentheses)
    for preset in ("released", "paper")
]


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_a_stream_on_the_gpu_holds_right_items_and_no_test_item(task):
    batch = task.sample(20_000, torch.Generator("cuda").manual_seed(0))
    assert batch.tokens.device.type == "cuda"
    on_cpu = batch.to("cpu")
    for part, expected in zip(on_cpu.parts(), task.encode(task.items(on_cpu)).parts(), strict=True):
        assert torch.equal(part, expected)
    rejection = held_out_of(task, torch.device("cpu"))
    assert rejection is not None
    assert len(rejection.rows.find(on_cpu.tokens, on_cpu.scored)) == 0


def test_the_balanced_share_on_the_gpu():
    balanced = (Parentheses().draw(200_000, torch.Generator("cuda").manual_seed(0)).targets == 2).any(dim=1)
    assert balanced.double().mean().item() == pytest.approx(0.525, abs=0.0045)  # four standard errors


def test_a_target_says_the_same_on_the_gpu_whatever_the_precision():
    target, tokens = Target(16, 64, 12), torch.randint(0, 64, (200, 12), generator=torch.Generator().manual_seed(0))
    with Precision.tf32.in_matrix_products():
        on_gpu = target(tokens.cuda()).cpu()
    assert torch.allclose(on_gpu, target(tokens), atol=1e-4)  # float32 sums in another order


def test_an_lstm_packed_by_time_gives_the_reference_logits_and_gradients():
    population = shaken(Population(LSTM(width=64), ModelDims(256, 100), (0, 1), "all", torch.device("cuda")))
    batch = Needle().sample(50, torch.Generator("cuda").manual_seed(0))
    with Precision.fp32.in_matrix_products():
        ours, reference = results_by_place(population, batch), reference_results(population, batch)
    for name, value in ours.items():
        assert (value - reference[name]).norm() < 2e-5 * reference[name].norm() + 1e-7, name


def test_a_body_in_training_is_computed_with_in_bf16_and_kept_in_float32():
    model, device, dims = Transformer(width=96, heads=2, init="matched"), torch.device("cuda"), ModelDims(31, 5)
    exact = shaken(Population(model, dims, (0, 1), "all", device))
    rounded = shaken(Population(model, dims, (0, 1), "all", device, Precision.bf16))
    batch = exact.prepare(ModularAddition(modulus=31).sample(200, torch.Generator("cuda").manual_seed(0)))
    expected, found = (results_by_place(population, batch) for population in (exact, rounded))
    assert found["block0.k.weight"].dtype == torch.bfloat16
    for name, value in found.items():  # bfloat16 has 8 bits: .4 % a rounding, a dozen of them on the way
        assert (value.float() - expected[name]).norm() < 0.05 * expected[name].norm() + 1e-3, name
    steps = Steps(rounded, TrainingConfig(steps=2, lr=1e-2, warmup_steps=0))
    before = {name: value.clone() for name, value in steps.state().items()}
    steps.take(batch)
    assert not torch.equal(before["value/block0.k.weight"], rounded.trained["block0.k.weight"])
    for _ in range(2):
        for decays, value in rounded.values.items():
            assert value.dtype == torch.float32
            assert torch.equal(rounded.rounded[decays], value.bfloat16())
        steps.set_state(0, before)


@pytest.mark.parametrize("model", [Transformer(width=32, init="matched"), LSTM(width=32)], ids=str)
@pytest.mark.parametrize("task", [Needle(max_pairs=5), ModularAddition(modulus=31), RandomText(80, 50)], ids=str)
def test_replayed_steps_are_the_steps_taken_one_by_one(task, model):
    device = torch.device("cuda")
    training = TrainingConfig(steps=100, batch=64, lr=1e-2, warmup_steps=5)

    def population() -> Population:
        return Population(model, ModelDims(task.vocab_size, 100), (0, 1, 2), "all", device)

    plain, replayed = Steps(population(), training), Steps(population(), training)
    stream = Stream(task, 64, 0, device)
    one_by_one, grouped = (BatchStream(stream, model.engine, bucketed=bucketed) for bucketed in (False, True))
    replay = Replay(replayed)
    taken = 0
    while taken < 60:
        slot = grouped.at(taken)
        replay.take([slot.step(index) for index in range(slot.begin, slot.end)])
        for step in range(taken, taken + slot.end - slot.begin):
            slot_of_one = one_by_one.at(step)
            plain.take(*slot_of_one.step(slot_of_one.index))
        taken += slot.end - slot.begin
        assert torch.allclose(plain.loss, replayed.loss, rtol=2e-3), taken
    assert int(replayed.step) == taken


@pytest.mark.parametrize("model", [Transformer(width=64, init="matched"), LSTM(width=64)], ids=str)
def test_a_model_trained_on_the_gpu_evaluates_the_same_on_the_cpu(model, tmp_path):
    task = Needle(max_pairs=3, values=20, vocabulary=40, test_size=200)
    runs = ice.train(
        task, model, seeds=2, steps=30, batch=64, warmup_steps=5, out=tmp_path, device="cuda", precision="fp32"
    )
    assert runs.path is not None
    from icecore.training import RunFolder, evaluate

    config, population = RunFolder(runs.path).load(torch.device("cpu"))
    again = evaluate(population, config.task, config.task.test_set())
    assert again["loss"] == pytest.approx(runs.result["loss"], rel=1e-4)  # float32 sums in another order
