"""Circuit imitation: what its targets are, and what needs no learning."""

import json
import math

import pytest
import torch
import torch.nn.functional as F
from small_runs import run_json

import icecore as ice
from icecore.cli import main
from icecore.models import ModelDims, Transformer, initialize
from icecore.models.engines import ReferenceEngine
from icecore.tasks import Imitation, make_task
from icecore.training import Population, RunFolder, evaluate, imitation_target
from icecore.training.imitation_target import Target, target_network, target_numbers, with_target
from icecore.training.population import losses
from icecore.training.presets import preset_model

pytestmark = pytest.mark.shapes

CPU = torch.device("cpu")
MODEL = Transformer(width=16, init="matched")
ANSWER = torch.tensor([0.5, 0.25, 0.125, 0.125, 0.0625, 0.0625]).div(1.125).log()
ENTROPY = -float((ANSWER.exp() * ANSWER).sum())


def deaf(tokens: torch.Tensor) -> torch.Tensor:
    """A target that ignores its input."""
    return ANSWER.expand(len(tokens), -1)


def test_baselines_of_a_target_that_ignores_its_input():
    task = Imitation(length=3, vocabulary=6, test_size=50, target=deaf)
    assert task.baselines() == {"chance": 1 / 6, "most_frequent_token": 1.0}
    baselines = task.loss_baselines()
    assert baselines["mean_output"] == pytest.approx(0, abs=1e-6)  # float32 log-probabilities
    assert baselines["uniform"] == pytest.approx(math.log(6) - ENTROPY, abs=1e-6)


def test_baselines_of_a_target_with_two_answers():
    def of_parity(tokens: torch.Tensor) -> torch.Tensor:
        likely = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
        return likely[tokens[:, -1] % 2].log()

    task = Imitation(length=3, vocabulary=2, test_size=4_000, target=of_parity)
    entropy = -(0.9 * math.log(0.9) + 0.1 * math.log(0.1))
    baselines = task.loss_baselines()
    assert baselines["uniform"] == pytest.approx(math.log(2) - entropy, abs=1e-6)
    # The mean of fresh outputs is uniform but for the share of even tokens among 4,000, of standard error .8 %.
    assert baselines["mean_output"] == pytest.approx(baselines["uniform"], abs=2e-3)


def test_numbers_of_targets_by_hand():
    deaf_one = target_numbers(Imitation(length=3, vocabulary=6, target=deaf), 100)
    assert deaf_one.entropy == pytest.approx(ENTROPY, abs=1e-6)
    assert deaf_one.pairwise_kl == pytest.approx(0, abs=1e-6)
    assert deaf_one.mean_output == pytest.approx(0, abs=1e-6)
    assert deaf_one.uniform == pytest.approx(math.log(6) - ENTROPY, abs=1e-6)


OF_SIX = 1 / math.sqrt(6)  # three layers


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        ("released", {"q": 0.2, "k": 0.2, "v": 0.2, "out": 0.02 * OF_SIX, "mlp_in": 0.02, "mlp_out": 0.4 * OF_SIX}),
        ("text", {"q": 0.2, "k": 0.2, "v": 0.02, "out": 0.02, "mlp_in": 0.4 * OF_SIX, "mlp_out": 0.4 * OF_SIX}),
        ("appendix", {"q": 0.4, "k": 0.4, "v": 0.4, "out": 0.02, "mlp_in": 0.4 * OF_SIX, "mlp_out": 0.4 * OF_SIX}),
    ],
)
def test_weights_of_a_target_have_the_standard_deviations_of_its_reading(init, expected):
    model, parameters = target_network(Target(64, 512, 40, init), CPU)
    assert (model.layers, model.heads) == (3, 2)
    for part, std in expected.items():
        for layer in range(3):
            # At least 4,096 numbers each: a standard error of 1.1 % or less.
            assert parameters[f"block{layer}.{part}.weight"].std().item() == pytest.approx(std, rel=0.05), part
            assert not parameters[f"block{layer}.{part}.bias"].any(), "biases begin at 0: no factor moves them"
    assert parameters["unembed"].std().item() == pytest.approx(2 / math.sqrt(64), rel=0.02)
    assert parameters["token"].std().item() == pytest.approx(0.02, rel=0.02)


@pytest.mark.parametrize("init", ["text", "appendix"])
@pytest.mark.parametrize("width", [4, 64])
def test_every_reading_has_the_entropy_of_the_scripts(init, width):
    """As of `released` in test_training: 4.3 to 4.5 nats, of log 512 = 6.2."""
    assert 4.0 < target_numbers(Imitation(target_width=width, target_init=init), 300).entropy < 4.8


def test_a_target_answers_in_parts_what_it_answers_at_once(monkeypatch):
    target, tokens = Target(16, 30, 8), torch.randint(0, 30, (50, 8), generator=torch.Generator().manual_seed(0))
    whole = target(tokens)
    monkeypatch.setattr(imitation_target, "MOST_VALUES", 7 * 8 * 64)
    assert torch.allclose(target(tokens), whole, atol=1e-5)


def test_presets_choose_the_reading_and_the_student():
    released, paper = (make_task("imitation", preset) for preset in ("released", "paper"))
    assert isinstance(released, Imitation)
    assert isinstance(paper, Imitation)
    assert (released.target_init, paper.target_init) == ("released", "text")
    students = [preset_model(task, Transformer, name) for task, name in ((released, "released"), (paper, "paper"))]
    assert [(student["width"], student["layers"]) for student in students] == [(256, 3), (512, 3)]
    assert with_target(paper) != with_target(released)


def test_targets_as_a_table_and_as_json(capsys):
    assert main(["targets", "--width", "4", "--items", "20", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["targets"]
    assert [(one["init"], one["width"]) for one in found] == [("released", 4), ("text", 4), ("appendix", 4)]
    for one in found:
        assert one["uniform"] == pytest.approx(math.log(512) - one["entropy"])
    assert main(["targets", "--width", "4", "--width", "8", "--items", "20"]) == 0
    out = capsys.readouterr().out
    assert "appendix │     8 │" in out
    assert "2.89 to 3.02" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["targets", "--width", "5"], "target_width must be even"),
        (["targets", "--items", "1"], "--items"),
        (["train", "imitation", "--target-init", "texts"], "did you mean 'text'?"),
        (["train", "imitation", "--test-size", "0"], "test_size must be at least 1"),
    ],
)
def test_bad_input(capsys, arguments, message):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error


def test_imitation_loss_is_kl():
    def target(tokens):
        return torch.nn.functional.one_hot(tokens[:, -1], 7).float().log_softmax(dim=-1)

    task = Imitation(length=4, vocabulary=7, target=target)
    batch = task.sample(6, torch.Generator().manual_seed(0))
    population = Population(MODEL, ModelDims(7, 4), (0,), "embeddings", CPU)
    reference = population.copy(engine=ReferenceEngine)
    work = reference.prepare(batch)
    logits = reference.logits(work)
    assert batch.target_log_probs is not None
    expected = torch.nn.functional.kl_div(
        logits[0].log_softmax(dim=-1), batch.target_log_probs, reduction="batchmean", log_target=True
    )
    assert losses(logits, work.targets)[0].item() == pytest.approx(expected.item(), rel=1e-5)
    packed = population.prepare(batch)
    assert losses(population.logits(packed), packed.targets)[0].item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("width", [4, 16, 64])
def test_imitation_targets_have_the_entropy_of_the_scripts(width):
    """SOURCE: by any reading of the target's initialization its entropy is 4.3 to 4.5 nats, of log 512 = 6.2."""
    task = with_target(Imitation(target_width=width))
    batch = task.draw(300, torch.Generator().manual_seed(0))
    assert batch.target_log_probs is not None
    entropy = -(batch.target_log_probs.exp() * batch.target_log_probs).sum(dim=1).mean().item()
    assert 4.0 < entropy < 4.8


def test_imitation_trains_and_loads_again(tmp_path):
    task = Imitation(length=5, vocabulary=16, target_width=4)
    runs = ice.train(task, MODEL, steps=60, batch=64, lr=1e-2, warmup_steps=5, out=tmp_path)
    assert runs.path is not None
    config, population = RunFolder(runs.path).load(CPU)
    measured = evaluate(population, config.task, config.task.test_set())
    assert measured["loss"] == pytest.approx(runs.result["loss"], rel=1e-6)
    untrained = Population(MODEL, config.dims, (0,), "embeddings", CPU)
    assert measured["loss"][0] < evaluate(untrained, config.task, config.task.test_set())["loss"][0]


def test_a_target_is_made_from_the_scripts_seed():
    """Another seed would be another target under the same name: what is recorded could not be compared any more."""
    _, parameters = target_network(Target(16, 512, 40), torch.device("cpu"))
    same = initialize(Transformer(width=16, layers=3, heads=2), ModelDims(512, 40), 12345)
    assert torch.equal(parameters["token"], same["token"])
    assert torch.equal(parameters["block2.q.weight"], 10 * same["block2.q.weight"])


def test_the_most_frequent_token_of_a_target_is_not_its_largest():
    def says_one_or_five(tokens):
        return F.one_hot(torch.where(tokens[:, -1] % 4 == 0, 5, 1), 8).float().mul(9).log_softmax(dim=-1)

    baselines = Imitation(length=2, vocabulary=8, test_size=400, target=says_one_or_five).baselines()
    assert baselines["most_frequent_token"] == pytest.approx(0.75, abs=4 * math.sqrt(0.75 * 0.25 / 400))


def test_the_mean_output_is_that_of_fresh_inputs(capsys):
    def target(tokens: torch.Tensor) -> torch.Tensor:
        return F.one_hot(tokens[:, 0], 16).float().mul(5).log_softmax(dim=-1)

    baselines = Imitation(length=2, vocabulary=16, test_size=1, target=target).loss_baselines()
    assert baselines["mean_output"] > 1, "the mean of one test item would be that item"
    assert run_json(capsys, "targets", "--width", 4, "--json")["items"] == 1000
