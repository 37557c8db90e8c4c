"""Looking inside, by hand: cases in which a wrong choice of items, directions or control would show."""

import dataclasses
import math
import random
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from conftest import WHOLE_SAMPLE

import icecore as ice
from icecore.analysis.attention import attention_maps, induction_scores
from icecore.analysis.circles import (
    circle_pair,
    circles,
    distance_irrelevance,
    gradient_symmetricity,
    random_triples,
    strongest_frequency,
)
from icecore.analysis.moments import Moments, chosen, moments_of, training_items
from icecore.analysis.readout import ridge_readout
from icecore.analysis.subspaces import accuracy_curve, basis_of, shuffled_answers
from icecore.errors import InputError
from icecore.models import ModelDims, Transformer, initialize
from icecore.reporting.inside import ANALYSES, AnalysisContext, AnalysisOptions, AnalyzedRun, analyze_run, readout
from icecore.sweeps import variance
from icecore.tasks import Batch, Item, Memorization, ModularAddition, Needle

SMALL = Needle(max_pairs=3, values=5, vocabulary=12, test_size=60)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def subject_of(task, trainable="all", steps=20, **settings):
    model = Transformer(width=16, init="matched")
    runs = ice.train(task, model, trainable, steps=steps, batch=16, lr=1e-2, warmup_steps=1, **settings)
    return AnalyzedRun.of(runs.config, runs.population, 0)


def test_what_is_read_of_a_short_item_ends_with_its_query():
    batch = Needle(max_pairs=3, values=5, vocabulary=12).encode([Item((6, 2, 9), (2,)), Item((6, 2, 7, 3, 10), (3,))])
    rows = {name: [row.nonzero()[:, 0].tolist() for row in chosen(batch, name)] for name in ("read", "scored", "last")}
    assert rows == {"read": [[0, 1, 2], [0, 1, 2, 3, 4]], "scored": [[2], [4]], "last": [[2], [4]]}
    assert bool(chosen(batch, "all").all())


def test_what_is_looked_into_are_ten_directions_of_training_items():
    runs = ice.train(SMALL, Transformer(width=32), steps=2, batch=8, warmup_steps=1, seeds=2)
    sample = variance.sample_of(SMALL)
    assert len(sample) == 2_000
    assert not set(SMALL.items(sample)) & set(SMALL.test_items())
    for index, found in enumerate(variance.variance_of(runs)):
        final = Transformer(width=32).trace(runs.population.parameters(index), sample.tokens)["final"]
        covariance = torch.cov(final[chosen(sample, "read")].double().T)
        total, spread = covariance.trace(), covariance.diagonal().sort().values
        directions, neurons = found["read"]["final"]
        assert directions == pytest.approx(float(torch.linalg.eigvalsh(covariance)[-10:].sum() / total))
        assert neurons == pytest.approx(float(spread[-10:].sum() / total), rel=1e-4)


def test_each_basis_is_the_one_that_its_name_says():
    trained, untrained = Moments(3), Moments(3)
    trained.add(torch.tensor([[0.0, 3.0, 1.0], [0.0, -3.0, 1.0], [0.1, 0.0, 1.0]]))
    untrained.add(torch.tensor([[0.0, 0.0, 3.0], [0.0, 0.0, -3.0]]))
    for kind, axis in (("directions", 1), ("neurons", 1), ("untrained", 2)):
        assert basis_of(cast(Any, kind), 1, trained, untrained).abs()[:, 0].tolist() == pytest.approx(
            torch.eye(3)[axis].tolist(), abs=0.02
        ), kind


def test_the_stream_is_edited_before_the_final_norm_alone():
    model = Transformer(width=16)
    parameters, batch = initialize(model, ModelDims(12, 8), 0), SMALL.test_set()
    moments = moments_of(model, parameters, batch)
    curve = accuracy_curve(model, parameters, SMALL, batch, moments, moments, (16,))
    assert curve.places == ("embedding", "block0.stream", "block1.stream")


def test_shuffled_answers_are_those_of_other_items():
    batch = SMALL.test_set()
    mixed = shuffled_answers(batch)
    before, after = batch.targets[batch.scored], mixed.targets[batch.scored]
    assert torch.equal(before.sort().values, after.sort().values)
    assert (before == after).float().mean() < 0.5
    assert torch.equal(mixed.tokens, batch.tokens)


def test_a_readout_is_scored_on_the_test_items():
    class Given:
        def hidden(self, _parameters, tokens):
            return F.one_hot(tokens, 12).float() @ normal(12, 16)

    batch = SMALL.test_set()
    train = type(batch)(batch.tokens, batch.tokens, batch.scored)  # the answer is the token itself
    test = type(batch)(batch.tokens, (batch.tokens + 1) % 12, batch.scored)  # here the one after it
    found = ridge_readout(cast(Any, Given()), {"token": torch.zeros(1)}, 12, train, test)
    assert (found.train_accuracy, found.test_accuracy) == (1, 0)


def test_a_penalty_is_chosen_on_items_kept_out():
    """A weak sign among much noise: what fits best does not choose best."""

    class Given:
        def hidden(self, _parameters, tokens):
            each = [normal(200, seed=int(token)) + signs[int(token)] for token in tokens[:, -1]]
            return torch.stack(each)[:, None].expand(-1, 2, -1)

    signs = torch.where(torch.arange(300) % 2 == 0, 0.1, -0.1)
    tokens = torch.arange(300)[:, None].expand(-1, 2).contiguous()
    scored = torch.tensor([False, True]).expand(300, -1)
    batch = Batch(tokens, tokens % 2 * scored, scored)
    found = ridge_readout(cast(Any, Given()), {"token": torch.zeros(1)}, 2, batch[:240], batch[240:])
    assert found.penalty >= 10


def test_the_control_is_the_untrained_model(monkeypatch):
    subject = subject_of(SMALL)
    control = dataclasses.replace(subject, parameters=subject.untrained)
    (_, found), (_, of_control) = (
        next(analyze_run(AnalysisContext(one), [ANALYSES["variance"]])) for one in (subject, control)
    )
    assert found["untrained"] == of_control["trained"] == of_control["untrained"] != found["trained"]
    monkeypatch.setattr("icecore.reporting.inside.readout.SAMPLE", 200)
    without_trained = dataclasses.replace(subject, parameters={})
    readouts = dict(analyze_run(AnalysisContext(without_trained), [ANALYSES["readout"]]))["readout"]["readouts"]
    assert [one["kind"] for one in readouts] == ["ridge", "logistic"], "of the untouched body, whatever was trained"


@pytest.fixture(scope="module")
def of_needle() -> AnalyzedRun:
    return subject_of(SMALL)


def looked(subject: AnalyzedRun, name: str, **request: Any) -> dict[str, Any]:
    return dict(analyze_run(AnalysisContext(subject, AnalysisOptions(**request)), [ANALYSES[name]]))[name]


def test_steps_of_induction_are_those_of_each_model_by_name(of_needle):
    found = looked(of_needle, "attention")
    assert "prompt" not in found, "the paper's has four pairs"
    assert found["items"] == 60
    for name, parameters in of_needle.both.items():
        scores = induction_scores(of_needle.model, parameters, SMALL, SMALL.test_set())
        assert found[name]["uniform"] == [scores.value_to_marker_uniform, scores.query_to_value_uniform]
        for step in ("value_to_marker", "query_to_value"):
            assert found[name][step] == getattr(scores, step).tolist()
            assert found[name][f"best_{step}"]["score"] == getattr(scores, step).max()
    assert found["trained"] != found["untrained"]


def test_maps_of_a_prompt_are_of_the_trained_model(of_needle):
    prompt = looked(of_needle, "attention", prompt="b 2 a 1 a")["prompt"]
    maps = attention_maps(of_needle.model, of_needle.parameters, SMALL.read("b 2 a 1 a"))
    assert prompt["maps"] == maps.tolist()
    modular = dataclasses.replace(of_needle.config, task=ModularAddition(modulus=7))
    with pytest.raises(
        InputError, match=r"attention of modular-addition needs a prompt, such as --prompt '[0-9]+ [0-9]+'"
    ):
        looked(dataclasses.replace(of_needle, config=modular), "attention")


def test_curves_are_of_the_trained_model_with_directions_of_both():
    task = Memorization(keys=8)
    subject = subject_of(task, steps=100)
    found = {(curve["mode"], curve["basis"]): curve for curve in looked(subject, "causal", items=50)["curves"]}
    trained, untrained = (moments_of(subject.model, one, subject.sample) for one in subject.both.values())
    counts = found["keep", "directions"]["counts"]
    for basis in ("directions", "untrained"):
        expected = accuracy_curve(
            subject.model,
            subject.parameters,
            task,
            task.test_set()[:50],
            trained,
            untrained,
            counts,
            cast(Any, basis),
            "remove",
        )
        assert found["remove", basis]["accuracy"] == expected.accuracy
    assert found["remove", "directions"]["accuracy"] != found["remove", "untrained"]["accuracy"]


def test_positions_are_those_that_are_asked_for(of_needle):
    found = {positions: looked(of_needle, "variance", positions=positions) for positions in ("read", "last")}
    assert found["last"]["activations"] == len(of_needle.sample) < found["read"]["activations"]
    assert [one["positions"] for one in found.values()] == ["read", "last"]
    assert found["last"]["trained"] != found["read"]["trained"]


def test_a_control_is_the_same_seed_before_training():
    runs = ice.train(SMALL, Transformer(width=16), steps=2, batch=8, warmup_steps=1, seeds=(5, 3))
    for index, seed in enumerate((5, 3)):
        subject = AnalyzedRun.of(runs.config, runs.population, seed)
        before = initialize(Transformer(width=16), runs.config.dims, seed)
        assert all(torch.equal(subject.untrained[name], value) for name, value in before.items())
        own = runs.population.parameters(index)
        assert all(torch.equal(subject.parameters[name], value) for name, value in own.items())
    with pytest.raises(InputError, match=r"has the seeds \[5, 3\], not 0"):
        AnalyzedRun.of(runs.config, runs.population, 0)


def test_circles_are_measured_in_each_models_own_embedding():
    subject = subject_of(ModularAddition(modulus=13))
    found = looked(subject, "modular")
    for name, parameters in subject.both.items():
        assert found[name]["circularity"] == circles(parameters["token"][:13]).circularity
        assert found[name]["gradient_symmetricity"] == gradient_symmetricity(subject.model, parameters, 13)
        irrelevance = distance_irrelevance(subject.model, parameters, 13)
        assert found[name]["distance_irrelevance"] == irrelevance
        wrong = distance_irrelevance(subject.model, parameters, 13, "largest-wrong")
        assert found[name]["distance_irrelevance_of_largest_wrong"] == wrong != irrelevance


def test_a_readout_is_solved_on_training_items_of_a_whole_finite_set(of_needle, monkeypatch):
    assert len(ModularAddition().train_set()) <= WHOLE_SAMPLE
    monkeypatch.setattr(readout, "SAMPLE", 300)
    found = looked(of_needle, "readout")
    train = training_items(SMALL, 300, "readout")
    expected = ridge_readout(of_needle.model, of_needle.untrained, SMALL.vocab_size, train, SMALL.test_set())
    assert found["readouts"][0] == dataclasses.asdict(expected)
    assert found["baselines"] == SMALL.baselines()


def test_bits_are_those_of_all_items_of_each_model(monkeypatch):
    monkeypatch.setattr("icecore.reporting.inside.memorized.ROWS", 10)
    subject, batch = subject_of(Memorization(keys=8)), Memorization(keys=8).test_set()
    found = looked(subject, "capacity")
    for name, parameters in subject.both.items():
        logits, answers = subject.model.logits(parameters, batch.tokens)[:, 1], batch.targets[:, 1]
        known = (3 - F.cross_entropy(logits, answers, reduction="none").double() / math.log(2)).clamp(min=0)
        assert found[name]["accuracy_bits"] == 3 * int((logits.argmax(dim=1) == answers).sum())
        assert found[name]["loss_bits"] == pytest.approx(float(known.sum()), rel=1e-5)
    assert found["trained"] != found["untrained"]


def test_bits_are_shared_among_all_parameters():
    subject = subject_of(Memorization(keys=8), "embeddings")
    for found in dict(analyze_run(AnalysisContext(subject), [ANALYSES["capacity"]]))["capacity"].values():
        total = sum(value.numel() for value in subject.untrained.values())
        assert found["trained_parameters"] == 16 * (16 + 5 + 16) < found["parameters"] == total
        assert found["accuracy_bits_per_parameter"] == pytest.approx(found["accuracy_bits"] / total)


def test_circularity_is_the_mean_of_four_components():
    angle = 2 * math.pi * 3 * torch.arange(31, dtype=torch.float64) / 31
    circle = torch.stack([angle.cos(), angle.sin()], dim=1) @ normal(2, 10).double()
    found = circles(circle + 1e-3 * normal(31, 10).double())
    assert len(found.by_component) == 4
    assert found.circularity == pytest.approx(sum(found.by_component) / 4)
    assert found.circularity < 0.9, "two of the four are noise"


def test_a_key_frequency_has_three_times_its_even_share():
    """Each of 15 frequencies has 1/15 of noise: .15 of the variance is not yet three times as much, .25 is."""
    number = torch.arange(31, dtype=torch.float64)

    def waves(share: float) -> torch.Tensor:
        parts = ((3, math.sqrt(1 - share)), (6, math.sqrt(share)))
        both = (torch.cos, torch.sin)
        return torch.stack([size * wave(2 * math.pi * k * number / 31) for k, size in parts for wave in both], dim=1)

    assert circles(waves(0.15)).spectrum[5] == pytest.approx(0.15)
    assert circles(waves(0.15)).key_frequencies == (3,)
    assert circles(waves(0.25)).key_frequencies == (3, 6)


def test_circles_are_drawn_on_two_components_of_one_frequency():
    number = torch.arange(31, dtype=torch.float64)
    waves = [torch.cos(2 * math.pi * k * number / 31 + shift) for k, shift in ((3, 0), (5, 0), (7, 0), (5, 1.5))]
    places = torch.stack(waves, dim=1)
    assert [strongest_frequency(column) for column in places.T] == [3, 5, 7, 5]
    assert circle_pair(places) == (1, 3)


def test_triples_are_pythons_shuffle_with_seed_42():
    order = list(range(343))
    random.Random(42).shuffle(order)
    assert random_triples(7)[:3] == [(index // 49, index // 7 % 7, index % 7) for index in order[:3]]
