"""On a GPU: the same streams and the same training, where there is one."""

import pytest
import torch
import torch.nn.functional as F
from twins import results_by_place, shaken

import icecore as ice
from icecore.bench.language import RandomText
from icecore.models import LSTM, Sizes, Transformer, chunked
from icecore.models.dense import Windows
from icecore.tasks import Batch, DecimalAddition, Imitation, Memorization, ModularAddition, Needle, Parentheses
from icecore.tasks.base import held_out_of
from icecore.training import Optimization, Population, Precision
from icecore.training.imitation_target import Target, with_target
from icecore.training.optimizer import AdamW, Vectors
from icecore.training.replay import Replay
from icecore.training.steps import Steps
from icecore.training.stream import Stream, WorkStream
from icecore.training.work import PackedWorks, Work, plain_work, whole

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


SMALL = [
    Needle(),
    DecimalAddition(),
    DecimalAddition(digits=2, scored="target-is-digit", test_size=50),
    Parentheses(),
    ModularAddition(),
    Memorization(),
    with_target(Imitation(length=12, vocabulary=64, target_width=8, test_size=50)),
]


@pytest.mark.parametrize("attention", ["softmax", "prefix-sum"])
@pytest.mark.parametrize("trainable", ["embeddings", "all"])
@pytest.mark.parametrize("task", SMALL, ids=str)
def test_kernels_give_the_plain_twins_logits_and_gradients(task, trainable, attention):
    """As in training: rounded sizes, filled up, several seeds; float32, whose sums have another order here."""
    model = Transformer(width=96, layers=3, heads=2, init="matched", attention=attention)
    population = shaken(Population(model, Sizes(task.vocab_size, 80), (0, 1), trainable, torch.device("cuda")))
    batch = task.sample(200, torch.Generator("cuda").manual_seed(0))
    packed = PackedWorks(task.vocab_size, batch, 100, lambda needed: [max(needed) + 70] * len(needed))
    with Precision.fp32.in_matrix_products():
        for index in range(2):
            ours = results_by_place(population, packed.step(index))
            twins = results_by_place(population, plain_work(batch[100 * index : 100 * index + 100]))
            assert ours.keys() == twins.keys()
            for name, value in ours.items():
                assert (value - twins[name]).norm() < 2e-5 * twins[name].norm() + 1e-7, name


def test_a_target_says_the_same_on_the_gpu_whatever_the_precision():
    target, tokens = Target(16, 64, 12), torch.randint(0, 64, (200, 12), generator=torch.Generator().manual_seed(0))
    with Precision.tf32.in_matrix_products():
        on_gpu = target(tokens.cuda()).cpu()
    assert torch.allclose(on_gpu, target(tokens), atol=1e-4)  # float32 sums in another order


def test_a_packed_lstm_gives_the_plain_twins_logits_and_gradients():
    population = shaken(Population(LSTM(width=64), Sizes(256, 100), (0, 1), "all", torch.device("cuda")))
    batch = Needle().sample(50, torch.Generator("cuda").manual_seed(0))
    with Precision.fp32.in_matrix_products():
        ours = results_by_place(population, whole(population.model, 256, batch))
        twins = results_by_place(population, plain_work(batch))
    for name, value in ours.items():
        assert (value - twins[name]).norm() < 2e-5 * twins[name].norm() + 1e-7, name


@pytest.mark.parametrize("vocabulary", [5, 1000, 4096, 4097, 10_000, 50_257])
def test_losses_of_rows_of_any_width_are_torchs(vocabulary):
    generator = torch.Generator("cuda").manual_seed(0)
    logits = 4 * torch.randn((2, 70, vocabulary), generator=generator, device="cuda")
    logits[0, 0, 0] = 80.0
    targets = torch.randint(vocabulary, (70,), generator=generator, device="cuda")
    weight = torch.rand(70, generator=generator, device="cuda")
    leaf = logits.clone().requires_grad_()
    each = F.cross_entropy(leaf.flatten(0, 1), targets.repeat(2), reduction="none").view(2, 70) * weight
    (expected,) = torch.autograd.grad(each.sum(), leaf)
    loss, gradient = chunked.loss_and_gradient(logits, targets, weight, torch.float32)
    assert torch.allclose(loss, each, rtol=1e-5, atol=1e-5)
    assert torch.allclose(gradient, expected, rtol=1e-4, atol=1e-6)
    rounded = chunked.loss_and_gradient(logits, targets, weight, torch.bfloat16)[1]
    assert torch.allclose(rounded.float(), expected, rtol=0.01, atol=1e-6)


@pytest.mark.parametrize("trainable", ["embeddings", "all"])
def test_windows_give_the_plain_twins_losses_and_gradients(trainable, monkeypatch):
    """In float32 with kernels, in several chunks; and in bfloat16, about the same."""
    monkeypatch.setitem(chunked.LOGITS_AT_ONCE, "cuda", 100 * 1000)
    model, sizes, device = (
        Transformer(width=64, layers=3, heads=2, init="matched"),
        Sizes(1000, 128),
        torch.device("cuda"),
    )
    tokens = torch.randint(1000, (4, 101), generator=torch.Generator("cuda").manual_seed(0), device=device)
    batch = Batch(tokens[:, :-1], tokens[:, 1:], torch.ones_like(tokens[:, 1:], dtype=torch.bool))

    def results(precision: Precision, work: Work) -> dict[str, torch.Tensor]:
        population = shaken(Population(model, sizes, (0, 1), trainable, device, precision))
        (group,) = population.groups
        with precision.in_matrix_products():
            loss, gradients = group.losses_and_gradients(work)
        return {"loss": loss, **gradients}

    ours = whole(model, 1000, batch)
    assert isinstance(ours.inputs, Windows)
    expected = results(Precision.fp32, plain_work(batch))
    # In bfloat16 a dozen roundings to 8 bits. A key's bias changes no attention: its gradient is rounding alone.
    for precision, tolerance, rounding in ((Precision.fp32, 2e-5, 1e-6), (Precision.bf16, 0.05, 1e-4)):
        for name, value in results(precision, ours).items():
            difference = (value.float() - expected[name]).norm()
            assert difference < tolerance * expected[name].norm() + rounding, (precision, name)


def test_a_body_in_training_is_computed_with_in_bf16_and_kept_in_float32():
    model, device, sizes = Transformer(width=96, heads=2, init="matched"), torch.device("cuda"), Sizes(31, 5)
    exact = shaken(Population(model, sizes, (0, 1), "all", device))
    rounded = shaken(Population(model, sizes, (0, 1), "all", device, Precision.bf16))
    work = whole(model, 31, ModularAddition(modulus=31).sample(200, torch.Generator("cuda").manual_seed(0)))
    expected, found = (results_by_place(population, work) for population in (exact, rounded))
    assert found["block0.k.weight"].dtype == torch.bfloat16
    for name, value in found.items():  # bfloat16 has 8 bits: .4 % a rounding, a dozen of them on the way
        assert (value.float() - expected[name]).norm() < 0.05 * expected[name].norm() + 1e-3, name
    steps = Steps(rounded, Optimization(steps=2, lr=1e-2, warmup_steps=0))
    before = {name: value.clone() for name, value in steps.state().items()}
    steps.take(work)
    assert not torch.equal(before["value/block0.k.weight"], rounded.trained["block0.k.weight"])
    for _ in range(2):
        for decays, value in rounded.values.items():
            assert value.dtype == torch.float32
            assert torch.equal(rounded.rounded[decays], value.bfloat16())
        steps.set_state(0, before)


def test_the_optimizers_kernel_is_its_plain_twin():
    device, (seeds, count) = torch.device("cuda"), (3, 5000)
    optimizer = AdamW(Optimization(steps=10, lr=0.1, warmup_steps=3, weight_decay=0.3, clip=1.0), device)
    generator = torch.Generator("cuda").manual_seed(0)

    def draw() -> torch.Tensor:
        return torch.randn((seeds, count), generator=generator, device=device)

    ours = Vectors(draw(), draw(), draw(), draw().abs())
    twins = Vectors(*(part.clone() for part in vars(ours).values()))
    norms = torch.tensor([[3.0, 0.3, 1e9], [0.1, 0.4, 0.0]], device=device)  # the second seed's is not clipped
    rounded = draw().bfloat16()
    for index in range(6):  # torch takes 1 - .999^step in float32, which costs it 3e-5
        step, gradient = torch.tensor(index, device=device), draw()
        for vectors in (ours, twins):
            vectors.gradient.copy_(gradient)
        optimizer.update(ours, norms, step, True, rounded)
        optimizer.plain_update(twins, norms, step, True, None)
        for name in ("value", "mean", "square"):
            assert torch.allclose(getattr(ours, name), getattr(twins, name), rtol=1e-4, atol=1e-5), (step, name)
        assert torch.equal(rounded, ours.value.bfloat16())


def test_the_kernel_that_ends_a_step_is_its_plain_twin():
    made = Population(Transformer(width=8), Sizes(9, 4), tuple(range(5)), "embeddings", torch.device("cuda"))
    ours, twins = (Steps(made, Optimization(steps=4)) for _ in range(2))
    nan, inf = float("nan"), float("inf")
    for losses in ([1.0, nan, 2.0, -inf, 0.0], [inf, 1.0, 2.0, nan, 0.0], [1.0, 1.0, 2.0, 1.0, nan]):
        for steps in (ours, twins):
            steps.loss.copy_(torch.tensor(losses))
        ours.end()
        twins.plain_end()
        assert torch.equal(ours.first_bad_step, twins.first_bad_step)
        assert ours.step == twins.step
    assert ours.first_bad_step.tolist() == [1, 0, -1, 0, 2]


@pytest.mark.parametrize("model", [Transformer(width=32, init="matched"), LSTM(width=32)], ids=str)
@pytest.mark.parametrize("task", [Needle(max_pairs=5), ModularAddition(modulus=31), RandomText(80, 50)], ids=str)
def test_replayed_steps_are_the_steps_taken_one_by_one(task, model):
    device = torch.device("cuda")
    optimization = Optimization(steps=100, batch=64, lr=1e-2, warmup_steps=5)

    def population() -> Population:
        return Population(model, Sizes(task.vocab_size, 100), (0, 1, 2), "all", device)

    plain, replayed = Steps(population(), optimization), Steps(population(), optimization)
    stream = Stream(task, 64, 0, device)
    one_by_one, grouped, replay = WorkStream(stream, model), WorkStream(stream, model, grouped=True), Replay(replayed)
    taken = 0
    while taken < 60:
        place = grouped.at(taken)
        replay.take([place.step(index) for index in range(place.begin, place.end)])
        for step in range(taken, taken + place.end - place.begin):
            place_of_one = one_by_one.at(step)
            plain.take(*place_of_one.step(place_of_one.index))
        taken += place.end - place.begin
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
