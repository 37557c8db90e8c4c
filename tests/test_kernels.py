"""Kernels compute what their references do: on a GPU or, where there is none, in Triton's interpreter, in small."""

import copy
import dataclasses
import os
import re
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from references import reference_results, results_by_place, shaken

from icecore.models import LinearAttention, Llama, Mamba, ModelDims, Transformer
from icecore.models.engines import Engine, ReferenceEngine, ShapeBuckets, chunked_loss
from icecore.models.engines.devices import INTERPRETED
from icecore.models.engines.fused import FusedAttention
from icecore.models.engines.prefix_index import index_prefixes
from icecore.models.engines.prefixes import attend_laid_out
from icecore.models.engines.scan import Convolution, FusedScan, Scan, Times
from icecore.models.engines.windows import Windows
from icecore.tasks import Batch, DecimalAddition, Imitation, Memorization, ModularAddition, Needle, Parentheses
from icecore.training import Population, Precision, TrainingConfig
from icecore.training.batches import prepare_batches
from icecore.training.imitation_target import with_target
from icecore.training.optimizer import AdamW, Vectors
from icecore.training.steps import Steps

HAS_GPU = torch.cuda.is_available() and not INTERPRETED
DEVICE = torch.device("cuda" if HAS_GPU else "cpu")
with_kernels = pytest.mark.skipif(not HAS_GPU and not INTERPRETED, reason="needs a GPU or Triton's interpreter")


@pytest.mark.skipif(HAS_GPU or INTERPRETED, reason="runs the rest of this file where it cannot run by itself")
def test_the_kernels_in_tritons_interpreter():
    pytest.importorskip("triton")
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:xdist"]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    ended = subprocess.run([*command, __file__], env=environment, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stdout[-4000:]
    assert re.search(r"^\d\d passed, 13 skipped", ended.stdout, re.MULTILINE), ended.stdout[-1000:]


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


SMALL = [
    Needle(max_pairs=30 if HAS_GPU else 4),
    DecimalAddition(digits=10 if HAS_GPU else 3),
    DecimalAddition(digits=2, scored="target-is-digit", test_size=50),
    Parentheses(max_pairs=30 if HAS_GPU else 5),
    ModularAddition(),
    Memorization(),
    with_target(Imitation(length=12, vocabulary=64, target_width=8, test_size=50)),
]


@with_kernels
@pytest.mark.parametrize("attention", ["softmax", "prefix-sum"])
@pytest.mark.parametrize("trainable", ["embeddings", "all"])
@pytest.mark.parametrize("task", SMALL, ids=lambda task: f"{task.name}-{task.vocab_size}")
def test_short_sequences_give_the_reference_logits_and_gradients(task, trainable, attention):
    """As in training: rounded sizes, filled up, several seeds; float32, whose sums have another order here."""
    if INTERPRETED and attention == "prefix-sum" and (trainable, task) not in (("all", SMALL[0]), ("all", SMALL[3])):
        pytest.skip("the interpreter is slow, and the others have all of its kernels")
    width, rows, more = (96, 100, 70) if HAS_GPU else (16, 3, 3)
    layers = 3 if HAS_GPU or task is SMALL[0] else 2
    model = Transformer(width=width, layers=layers, heads=2, init="matched", attention=attention)
    population = shaken(Population(model, ModelDims(task.vocab_size, 80), (0, 1), trainable, DEVICE))
    batch = task.sample(2 * rows, torch.Generator(DEVICE).manual_seed(0))
    buckets = ShapeBuckets(1, 1)
    buckets.of_nodes = lambda needed: [max(needed) + more] * len(needed)
    prepared = prepare_batches(model.engine, task.vocab_size, batch, rows, buckets)
    with Precision.fp32.in_matrix_products():
        for index in range(2):
            ours = results_by_place(population, prepared.step(index))
            reference = reference_results(population, batch[rows * index : rows * index + rows])
            assert ours.keys() == reference.keys()
            for name, value in ours.items():
                assert (value - reference[name]).norm() < 2e-5 * reference[name].norm() + 1e-7, name


@with_kernels
@pytest.mark.parametrize(
    "model",
    [Llama(width=16, heads=4, heads_per_key=2), LinearAttention(width=16, decay="head"), Mamba(width=8, layers=2)],
    ids=lambda model: model.name,
)
def test_other_bodies_give_the_reference_logits_and_gradients(model):
    task = Needle(max_pairs=2, values=5, vocabulary=12, test_size=5)
    population = shaken(Population(model, ModelDims(task.vocab_size, 8), (0, 1), "all", DEVICE))
    batch = task.sample(3, torch.Generator(DEVICE).manual_seed(0))
    with Precision.fp32.in_matrix_products():
        ours, reference = results_by_place(population, batch), reference_results(population, batch)
    assert ours.keys() == reference.keys()
    for name, value in ours.items():  # norms of small outputs amplify rounding
        assert (value - reference[name]).norm() < 1e-3 * reference[name].norm() + 1e-7, name


@with_kernels
def test_the_kernels_of_mamba_are_their_references():
    """More channels than a program has, fewer states than a tile; sequences that end between and at kept states."""
    seeds, channels, state, sizes = 2, 40, 3, (3, 3, 2, 2, 1)
    times, tokens = Times.of(sizes, DEVICE), sum(sizes)
    x, step = (random(seeds, tokens, channels, seed=seed) for seed in (0, 1))
    vectors = [random(seeds, channels, seed=seed) for seed in (2, 3)]
    rate = -random(seeds, channels, state, seed=4).exp()
    written, read = (random(seeds, tokens, state, seed=seed) for seed in (5, 6))
    factor, kernel = random(seeds, tokens, channels, seed=7), random(seeds, channels, 4, seed=8)

    def plain(x, step, bias, rate, skip, written, read):
        step = F.softplus(step + bias[:, None])
        return Scan.apply(step * x, step, rate, written, read, sizes) + skip[:, None] * x

    leaves = [each.requires_grad_() for each in (x, step, vectors[0], rate, vectors[1], written, read)]
    found = FusedScan.apply(*leaves, times), plain(*leaves)
    gradients = [torch.autograd.grad((each * factor).sum(), leaves) for each in found]
    assert torch.allclose(*found, rtol=1e-5, atol=1e-5)
    for ours, reference in zip(*gradients, strict=True):
        assert (ours - reference).norm() < 1e-5 * reference.norm()

    padded = torch.cat([x, x.new_zeros(seeds, 1, channels)], dim=1)
    shifted = (padded[:, times.earlier[lag]] * kernel[:, None, :, 3 - lag] for lag in range(4))
    summed, ours = sum(shifted, start=vectors[0][:, None]), Convolution.apply(x, kernel, vectors[0], times)
    assert torch.allclose(ours, summed, rtol=1e-5, atol=1e-5)
    gradients = [torch.autograd.grad((each * factor).sum(), x) for each in (ours, summed)]
    assert torch.allclose(gradients[0][0], gradients[1][0], rtol=1e-5, atol=1e-5)


@with_kernels
@pytest.mark.parametrize("vocabulary", [5, 1000, 4096, 4097, 10_000, 50_257])
def test_losses_of_rows_of_any_width_are_torchs(vocabulary):
    rows = 70 if HAS_GPU else 4
    logits = 4 * random(2, rows, vocabulary)
    logits[0, 0, 0] = 80.0
    targets = random(rows, seed=1).mul(1e6).long().remainder(vocabulary)
    weight = random(rows, seed=2).abs()
    leaf = logits.clone().requires_grad_()
    each = F.cross_entropy(leaf.flatten(0, 1), targets.repeat(2), reduction="none").view(2, rows) * weight
    (expected,) = torch.autograd.grad(each.sum(), leaf)
    loss, gradient = chunked_loss.loss_and_gradient(logits, targets, weight, torch.float32)
    assert torch.allclose(loss, each, rtol=1e-5, atol=1e-5)
    assert torch.allclose(gradient, expected, rtol=1e-4, atol=1e-6)
    rounded = chunked_loss.loss_and_gradient(logits, targets, weight, torch.bfloat16)[1]
    assert torch.allclose(rounded.float(), expected, rtol=0.01, atol=1e-6)


@with_kernels
@pytest.mark.parametrize("trainable", ["embeddings", "all"])
def test_windows_give_the_reference_losses_and_gradients(trainable, monkeypatch):
    """In float32 with kernels, in several chunks; and on a GPU in bfloat16, about the same."""
    width, rows, vocabulary = (64, 4, 1000) if HAS_GPU else (24, 1, 40)
    monkeypatch.setitem(chunked_loss.LOGITS_AT_ONCE, DEVICE.type, 50 * vocabulary)
    model, dims = Transformer(width=width, layers=3, heads=2, init="matched"), ModelDims(vocabulary, 128)
    tokens = random(rows, 101).mul(1e6).long().remainder(vocabulary)
    batch = Batch(tokens[:, :-1], tokens[:, 1:], torch.ones_like(tokens[:, 1:], dtype=torch.bool))

    def results(precision: Precision, engine: type[Engine] = model.engine) -> dict[str, torch.Tensor]:
        population = shaken(Population(model, dims, (0, 1), trainable, DEVICE, precision, engine=engine))
        (group,), prepared = population.groups, population.prepare(batch)
        assert isinstance(prepared.inputs, Windows) or engine is ReferenceEngine
        with precision.in_matrix_products():
            loss, gradients = group.losses_and_gradients(prepared)
        return {"loss": loss, **gradients}

    expected = results(Precision.fp32, ReferenceEngine)
    # In bfloat16 a dozen roundings to 8 bits. A key's bias changes no attention: its gradient is rounding alone, of
    # numbers as large as those that the query's is made of.
    for precision, tolerance in ((Precision.fp32, 2e-5), (Precision.bf16, 0.05)):
        if precision == Precision.fp32 or HAS_GPU:
            for name, value in results(precision).items():
                difference = (value.float() - expected[name]).norm()
                size = expected[name.replace(".k.bias", ".q.bias")].norm()
                assert difference < tolerance * size + 1e-6, (precision, name)


@with_kernels
def test_the_optimizers_kernel_is_its_reference():
    seeds, count = 3, 5000
    optimizer = AdamW(TrainingConfig(steps=10, lr=0.1, warmup_steps=3, weight_decay=0.3, clip=1.0), DEVICE)
    value, gradient, mean, square = (random(seeds, count, seed=seed) for seed in range(4))
    ours = Vectors(value, gradient, mean, square.abs(), value.bfloat16(), decays=True)
    reference = dataclasses.replace(copy.deepcopy(ours), rounded=None)
    assert ours.rounded is not None
    norms = torch.tensor([[3.0, 0.3, 1e9], [0.1, 0.4, 0.0]], device=DEVICE)  # the second seed's is not clipped
    for index in range(6):  # torch takes 1 - .999^step in float32, which costs it 3e-5
        step, gradient = torch.tensor(index, device=DEVICE), random(seeds, count, seed=10 + index)
        for vectors in (ours, reference):
            vectors.gradient.copy_(gradient)
        optimizer.update(ours, norms, step)
        optimizer.plain_update(reference, norms, step)
        for name in ("value", "mean", "square"):
            assert torch.allclose(getattr(ours, name), getattr(reference, name), rtol=1e-4, atol=1e-5), (step, name)
        if HAS_GPU:
            assert torch.equal(ours.rounded, ours.value.bfloat16())
        else:  # the interpreter cuts bits off
            assert torch.allclose(ours.rounded.float(), ours.value, rtol=2**-7, atol=0)


@with_kernels
def test_the_kernel_that_ends_a_step_is_its_reference():
    made = Population(Transformer(width=8), ModelDims(9, 4), tuple(range(5)), "embeddings", DEVICE)
    ours, reference = (Steps(made, TrainingConfig(steps=4)) for _ in range(2))
    nan, inf = float("nan"), float("inf")
    for losses in ([1.0, nan, 2.0, -inf, 0.0], [inf, 1.0, 2.0, nan, 0.0], [1.0, 1.0, 2.0, 1.0, nan]):
        for steps in (ours, reference):
            steps.loss.copy_(torch.tensor(losses))
        ours.end()
        reference.plain_end()
        assert torch.equal(ours.first_bad_step, reference.first_bad_step)
        assert ours.step == reference.step
    assert ours.first_bad_step.tolist() == [1, 0, -1, 0, 2]


@with_kernels
@pytest.mark.parametrize("scored", [True, False])
@pytest.mark.parametrize("softmax", [True, False])
def test_long_sequences_and_wide_heads_are_attended_as_the_plain_way_does(scored, softmax):
    """Heads of 136 channels, as wide ones have more than a program takes at once; sequences of every tile's size."""
    model = Transformer(width=272, heads=2, attention="softmax" if softmax else "prefix-sum")
    lengths = torch.tensor([3, 16, 17, 32, 40])
    tokens = random(1, 5, 40).mul(1e6).long().remainder(50)
    index = index_prefixes(tokens, (torch.arange(40) == lengths[:, None] - 1)[None].to(DEVICE), 50).step(0)
    reads = index.reads(rows=False, scored=scored)
    outputs = len(index.scored_node) if scored else index.nodes
    q, kv = random(2, outputs, 272, seed=1).requires_grad_(), random(2, index.nodes, 544, seed=2).requires_grad_()
    with Precision.fp32.in_matrix_products():
        ours = FusedAttention.apply(q, kv, index, reads, outputs, False, 2, softmax)
        plain = attend_laid_out(model.heads, model.attention, q, kv, reads, outputs)
        weight = random(*plain.shape, seed=3)
        gradients = [torch.autograd.grad((each * weight).sum(), (q, kv), allow_unused=True) for each in (ours, plain)]
    assert torch.allclose(ours, plain, rtol=1e-4, atol=1e-4)
    for mine, theirs in zip(*gradients, strict=True):
        assert torch.allclose(mine, torch.zeros_like(mine) if theirs is None else theirs, rtol=1e-4, atol=1e-3)


@with_kernels
def test_sums_and_norms_of_many_and_of_wide_rows_are_torchs(monkeypatch):
    kernels = pytest.importorskip("icecore.models.engines.kernels")
    values, key = random(2, 40, 272), torch.arange(40, device=DEVICE).div(7, rounding_mode="floor")
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    expected = values.new_zeros((2, 6, 272)).index_add(1, key, values[:, order])
    assert torch.allclose(kernels.segment_sum(values, order.int(), key.int(), 6), expected, rtol=1e-5, atol=1e-5)
    programs = 1024 if HAS_GPU else 16  # the interpreter takes milliseconds for each
    monkeypatch.setattr("icecore.models.engines.kernels.rows.PROGRAMS", programs)
    rows = programs * 128 + 1  # more than a program has in one turn
    x, weight, bias = random(1, rows, 16), random(1, 16, seed=1), random(1, 16, seed=2)
    leaves = [each.clone().requires_grad_() for each in (x, weight, bias)]
    gradient = random(1, rows, 16, seed=3)
    reference = torch.autograd.grad(F.layer_norm(leaves[0], (16,)) * leaves[1] + leaves[2], leaves, gradient)
    _, total, moments = kernels.norm_forward(x, None, None, weight, bias, torch.float32, 1e-5)
    d_x, _, d_weight, d_bias = kernels.norm_backward(total, moments, gradient, None, weight)
    for mine, theirs in zip((d_x, d_weight, d_bias), reference, strict=True):
        assert (mine - theirs).norm() < 1e-4 * theirs.norm()
