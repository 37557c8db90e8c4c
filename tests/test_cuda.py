"""On a GPU: the same streams and the same training, where there is one."""

import pytest
import torch

import icecore as ice
from icecore.models import LSTM, Transformer
from icecore.tasks import DecimalAddition, Needle, Parentheses
from icecore.tasks.base import held_out_of

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


@pytest.mark.parametrize("model", [Transformer(width=64, init="matched"), LSTM(width=64)], ids=str)
def test_a_model_trained_on_the_gpu_evaluates_the_same_on_the_cpu(model, tmp_path):
    task = Needle(max_pairs=3, values=20, vocabulary=40, test_size=200)
    runs = ice.train(task, model, seeds=2, steps=30, batch=64, warmup_steps=5, out=tmp_path, device="cuda")
    assert runs.path is not None
    from icecore.training import RunFolder, evaluate

    config, population = RunFolder(runs.path).load(torch.device("cpu"))
    again = evaluate(population, config.task, config.task.test_set())
    assert again["loss"] == pytest.approx(runs.result["loss"], rel=1e-4)  # float32 sums in another order
