"""Benches: what is divided by what, with clocks that are made up."""

import itertools
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from icecore.bench import language as language_bench
from icecore.bench.data import bench_data
from icecore.bench.lower_bound import Product, lower_bound_seconds
from icecore.bench.precision import bench_precision
from icecore.bench.profile import profile_steps
from icecore.bench.train import BODIES, Case, bench_case, cases_for
from icecore.bench.user_loop import NETWORKS, AsWritten, padded, updates
from icecore.cli import main
from icecore.models import DeltaNet, Llama, Mamba, ModelDims, Transformer, initialize
from icecore.models.huggingface import new_gpt2
from icecore.tasks import Item
from icecore.training import Precision, TrainingConfig


def test_a_bench_divides_by_the_seeds_and_by_our_time(monkeypatch, capsys):
    counts = Counter({Product(1, 10, 10, 10, torch.float32): 3})
    seconds = iter((0.04, 0.006))  # of a step of the reference, of both seeds, and of a user's, of one
    for name, value in {
        "time_ours": lambda *_: (0.008, None, counts),
        "lower_bound_seconds": lambda *_: 0.004,
        "seconds_per_call": lambda *_: next(seconds),
        "user_step": lambda *_: None,
        "reference_steps": lambda *_: None,
    }.items():
        monkeypatch.setattr(f"icecore.bench.train.{name}", value)
    case = Case("needle", width=16, seeds=2)
    row = bench_case(case, torch.device("cpu"), Precision.fp32, 0.0)
    assert (row.ms_per_seed_step, row.lower_bound_ms, row.share_of_lower_bound) == pytest.approx((4.0, 2.0, 0.5))
    assert (row.reference_ms, row.huggingface_ms) == pytest.approx((20.0, 6.0))
    assert row.gflop == pytest.approx(3 * 2000 / 1e9 / 2)
    monkeypatch.setattr("icecore.bench.train.bench_train", lambda *_: iter([row]))
    assert main(["bench", "--task", "needle", "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert "20 (5x)" in shown
    assert "6 (2x)" in shown


def test_a_bench_of_language_is_in_tokens_a_second_and_in_shares_of_the_product_rate(monkeypatch):
    counts = Counter({Product(1, 100, 100, 100, torch.float32): 5})
    monkeypatch.setattr("icecore.bench.language.time_ours", lambda *_: (0.02, None, counts))
    monkeypatch.setattr("icecore.bench.language.lower_bound_seconds", lambda *_: 0.005)
    monkeypatch.setattr("icecore.bench.language.ms_if_it_fits", lambda *_: 1.0)
    model = Transformer(width=16, layers=1, heads=2)
    row = language_bench.bench_case(model, "all", torch.device("cpu"), Precision.fp32, 0.0, rate=1e12)
    assert (row.tokens, row.tokens_per_second) == (20 * 128, pytest.approx(20 * 128 / 0.02))
    assert (row.ms_per_step, row.lower_bound_ms, row.product_tflops) == pytest.approx((20, 5, 1))
    assert row.share_of_product_rate == pytest.approx(1e9 * row.gflop / 0.02 / 1e12)


def test_rates_of_data_are_items_a_second(monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr("icecore.bench.data.time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    monkeypatch.setattr("icecore.bench.data.BLOCK", 64)
    monkeypatch.setattr("icecore.bench.data.PLAIN_BLOCK", 8)
    rates = [(row.items_per_s, row.python_items_per_s, row.ratio) for row in bench_data(rounds=1)]
    assert rates == [(64, 8, 8)] * 3, "each way has a second a round"


def test_the_lower_bound_counts_a_product_as_often_as_it_is_called(monkeypatch):
    monkeypatch.setattr("icecore.bench.lower_bound.seconds_of", lambda product, _: 0.1 * product.batch)
    counts = Counter({Product(1, 2, 2, 2, torch.float32): 3, Product(2, 2, 2, 2, torch.float32): 5})
    assert lower_bound_seconds(counts, torch.device("cpu")) == pytest.approx(0.1 * 3 + 0.2 * 5)


def test_the_users_loop_feeds_answers_back_and_trains_the_embeddings():
    items = [Item((5, 6, 7), (8,)), Item((1, 2), (3, 4))]
    tokens, rows, columns, targets = padded(items, 4)
    assert tokens.tolist() == [[5, 6, 7, 0], [1, 2, 3, 0]]
    assert list(zip(rows, columns, targets.tolist(), strict=True)) == [(0, 2, 8), (1, 1, 3), (1, 2, 4)]
    network = new_gpt2(Transformer(width=8, layers=1, heads=2), ModelDims(9, 4))
    updates(network, "embeddings", TrainingConfig())
    trained = {name for name, value in network.named_parameters() if value.requires_grad}
    assert trained == {"transformer.wte.weight", "transformer.wpe.weight", "lm_head.weight"}


@pytest.mark.parametrize(
    ("body", "trained"),
    [
        (Llama(width=8, heads=2), {"model.embed_tokens.weight", "lm_head.weight"}),
        (Mamba(width=8, layers=1), {"backbone.embeddings.weight", "lm_head.weight"}),
        (DeltaNet(width=8, heads=2), {"around.token", "around.unembed"}),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_the_users_network_of_a_body_has_its_logits_and_trains_its_embeddings(body, trained):
    dims = ModelDims(9, 6)
    network = NETWORKS.get(body.name, AsWritten)(body, dims)
    updates(network, "embeddings", TrainingConfig())
    assert {name for name, value in network.named_parameters() if value.requires_grad} == trained
    tokens = torch.randint(9, (3, 6), generator=torch.Generator().manual_seed(0))
    output = network(tokens)
    logits = output if isinstance(output, torch.Tensor) else output.logits
    assert torch.allclose(logits, body.logits(initialize(body, dims, 0), tokens), atol=1e-5)


def test_every_body_has_a_row():
    for device in ("cpu", "cuda"):
        cases = cases_for(torch.device(device), "needle")
        assert {case.model for case in cases} >= set(BODIES)
    (case,) = cases_for(torch.device("cpu"), None, 64, "llama")
    assert (case.model, case.width) == ("llama", 64)
    assert main(["bench", "--model", "lama"]) == 2


def test_a_profile_is_of_one_step(monkeypatch):
    monkeypatch.setattr("icecore.bench.profile.seconds_per_call", lambda *_: 0.004)
    monkeypatch.setattr("icecore.bench.profile.kernel_times", lambda *_: Counter({"aten::mm": 80.0, "else": 8.0}))
    found = profile_steps(Case("needle"), "ours", Precision.fp32, lambda: None, 4, torch.device("cpu"))
    assert found.wall_us == pytest.approx(1000)
    assert found.by_kind == {"matrix products": 20.0, "the rest": 2.0}
    assert found.top == {"aten::mm": 20.0, "else": 2.0}


def test_both_precisions_stand_below_their_names(monkeypatch):
    def train(*_arguments: Any, precision: str, **_settings: Any) -> SimpleNamespace:
        return SimpleNamespace(result={"accuracy": [f"accuracy in {precision}"], "loss": [f"loss in {precision}"]})

    monkeypatch.setattr("icecore.bench.precision.train", train)
    for row in bench_precision("needle", 10, "cpu", Precision.bf16):
        assert (row.fp32_accuracy, row.accuracy) == (["accuracy in fp32"], ["accuracy in bf16"])
        assert (row.fp32_loss, row.loss) == (["loss in fp32"], ["loss in bf16"])
