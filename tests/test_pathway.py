"""Refined or replaced: cases whose answer is known, and each measure by hand."""

import math
from typing import Any

import pytest
import torch

import icecore as ice
from icecore.analysis import attention, moments, pairs
from icecore.analysis.attention import attention_maps, attention_overlap, head_scores, induction_scores
from icecore.analysis.circles import spectrum_overlap, without_frequencies
from icecore.analysis.evaluation import accuracy_and_loss
from icecore.analysis.moments import moments_of
from icecore.analysis.pairs import Line, activations_from, displacement, joined, line_between, pair_moments
from icecore.analysis.pathway import CONTRAST, Measure, Pathway, Setting, Yardstick
from icecore.analysis.pathway_measures import measures_of, without
from icecore.models import ModelDims, initialize
from icecore.reporting.pathway import answer_of
from icecore.sweeps.tracking import point_of
from icecore.tasks import DecimalAddition, Imitation, Memorization, ModularAddition, Needle
from icecore.training import evaluate
from icecore.training.imitation_target import with_target

TASK, MODEL = Memorization(keys=8), ice.Transformer(width=32, init="matched")
CAUSAL = {
    "new embeddings, old body",
    "old embeddings, new body",
    "old directions kept",
    "old directions removed: accuracy lost",
    "old activations in the new network",
    "new activations in the old network",
    "loss barrier on the line",
}


@pytest.fixture(scope="module")
def solved():
    run = ice.train(TASK, MODEL, seeds=3, steps=130, batch=64, lr=3e-2, warmup_steps=20, device="cpu")
    assert min(run.accuracy) == 1.0
    return run


@pytest.fixture(scope="module")
def pathway(solved):
    items = TASK.test_set()
    setting = Setting(MODEL, solved.config.dims, TASK, items, items)
    return Pathway(setting, solved.parameters(0), solved.parameters(1))


def by_name(pathway, after) -> tuple[dict[str, Measure], dict[str, Any]]:
    measures, details = measures_of(pathway, after)
    return {measure.name: measure for measure in measures}, details


def score(measure: Measure) -> float:
    assert measure.score is not None, f"{measure} cannot tell"
    return measure.score


def answer(pathway, after):
    return answer_of([point_of(0, 1, *measures_of(pathway, after))])


def test_what_has_not_changed_is_refined_by_every_measure(pathway):
    found, details = by_name(pathway, pathway.before)
    assert set(found) == CAUSAL | {
        "displacement of the body",
        "CKA",
        "overlap of top directions",
        "overlap of attention, head by head",
    }
    assert {name for name, measure in found.items() if measure.causal} == CAUSAL
    for name, measure in found.items():
        assert measure.here == pytest.approx(measure.refined, abs=1e-5), name
        assert measure.score is None or measure.score == pytest.approx(1, abs=1e-4), name
    assert all(found[name].score is not None for name in CAUSAL)
    assert details["accuracy"] == details["accuracy_before"] == 1.0
    none = dict.fromkeys(("exceeds", "between", "replaced", "cannot tell"), 0)
    assert answer(pathway, pathway.before) == ("refined", {"refined": 7, **none})


def test_another_solution_on_a_body_drawn_again_is_replaced(pathway, solved):
    found, details = by_name(pathway, solved.parameters(2))
    assert details["accuracy"] == 1.0, "it solves the task as well"
    for name in CAUSAL:
        assert score(found[name]) <= 0.25, name
    assert found["displacement of the body"].here == pytest.approx(math.sqrt(2), rel=0.05)
    assert answer(pathway, solved.parameters(2))[0] == "replaced"


def test_neurons_in_another_order_change_weights_and_no_mechanism(pathway):
    """Measures of weights are misled; exchanges of parts or activations are not."""
    order, after = torch.randperm(4 * MODEL.width, generator=torch.Generator().manual_seed(0)), dict(pathway.before)
    for layer in range(MODEL.layers):
        for name in (f"block{layer}.mlp_in.weight", f"block{layer}.mlp_in.bias"):
            after[name] = after[name][order]
        after[f"block{layer}.mlp_out.weight"] = after[f"block{layer}.mlp_out.weight"][:, order]
    found, _ = by_name(pathway, after)
    for name in CAUSAL - {"loss barrier on the line"}:
        assert score(found[name]) > 0.99, name
    assert found["CKA"].here == pytest.approx(1, abs=1e-4)
    assert score(found["displacement of the body"]) < 0.5


def test_a_rotation_of_the_stream_changes_coordinates_and_no_function(pathway):
    """Embeddings and body rotated together compute the same, though neither works with the other's half."""
    turn = rotation_about_the_mean(MODEL.width)
    after = dict(pathway.before)
    for name in ("token", "position", "unembed"):
        after[name] = after[name] @ turn.T
    for layer in range(MODEL.layers):
        for part in ("q", "k", "v", "mlp_in"):
            after[f"block{layer}.{part}.weight"] = after[f"block{layer}.{part}.weight"] @ turn.T
        for part in ("out", "mlp_out"):
            after[f"block{layer}.{part}.weight"] = turn @ after[f"block{layer}.{part}.weight"]
    found, details = by_name(pathway, after)
    assert details["accuracy"] == 1.0
    assert found["CKA"].here == pytest.approx(1, abs=1e-3), "CKA sees no difference"
    assert score(found["new embeddings, old body"]) < 0.5
    assert score(found["old activations in the new network"]) < 0.5


def rotation_about_the_mean(width):
    """Return a rotation that keeps the all-ones direction, which a layer norm treats apart."""
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randn(width, width - 1, generator=generator) for _ in range(2))
    basis = torch.linalg.qr(torch.cat([torch.ones(width, 1), first], dim=1)).Q
    inner = torch.linalg.qr(second[1:]).Q
    return basis @ torch.block_diag(torch.ones(1, 1), inner) @ basis.T


def test_a_score_is_the_place_between_the_references():
    assert Measure("a", 0.6, 1.0, 0.2).score == pytest.approx(0.5)
    assert Measure("a", 0.6, 0.2, 1.0).score == pytest.approx(0.5), "less is refined"
    assert Measure("a", 3.0, 1.0, 0.0).score == 3.0, "beyond what an unchanged mechanism gives"
    assert Measure("a", -3.0, 1.0, 0.0).score == -3.0
    assert Measure("a", 0.5, 0.55, 0.5).score is None, "the references are too close to tell"
    assert Measure("a", 0.5, 0.55, 0.5, contrast=0.01).score == 0.0


def test_what_is_no_better_than_the_baseline_has_no_mechanism():
    needle = Yardstick("accuracy", "most frequent", 0.566)
    assert needle.contrast == CONTRAST
    assert [needle.is_better(value) for value in (0.23, 0.566, 0.61, 0.67, 1.0)] == [False, False, False, True, True]
    assert (needle.best(0.2, 0.8), needle.best(0.2)) == (0.8, 0.566)
    parentheses = Yardstick("accuracy", "ends", 0.974)
    assert [parentheses.is_better(value) for value in (0.948, 0.98, 1.0)] == [False, False, True]
    trivial = Yardstick("accuracy", "constant", 1.0)
    assert not trivial.is_better(1.0)
    language = Yardstick("loss", "bigram", 3.91)
    assert [language.is_better(value) for value in (5.0, 3.9, 3.37)] == [False, False, True]
    assert (language.best(12.0, 3.0), language.best(12.0)) == (3.0, 3.91)


def test_the_zero_of_an_accuracy_is_at_least_the_best_rule(pathway):
    """A constant answer scores nothing, whatever an unrelated network answers."""
    rule = pathway.setting.yardstick.baseline
    constant = {**pathway.before, "unembed": torch.zeros_like(pathway.before["unembed"])}
    found, details = by_name(pathway, constant)
    assert not details["above_baseline"]["after"]
    for name in ("old activations in the new network", "new embeddings, old body"):
        assert found[name].replaced >= rule, name
    assert answer(pathway, constant)[0] == "lost"
    assert answer(Pathway(pathway.setting, constant, pathway.null), pathway.before)[0] == "nothing to refine"


def test_a_task_that_is_judged_by_its_loss_is_compared_by_it():
    task = with_target(Imitation(length=3, vocabulary=16, target_width=4, test_size=100))
    model, items = ice.Transformer(width=16, init="matched"), task.test_set()
    run = ice.train(task, model, seeds=2, steps=60, batch=64, lr=3e-2, warmup_steps=5, device="cpu")
    before, null = run.parameters(0), run.parameters(1)
    of_loss = Pathway(Setting(model, run.config.dims, task, items, items), before, null)
    found, details = by_name(of_loss, before)
    assert set(found) >= {"old directions removed: loss added", "new embeddings, old body"}
    assert details["loss_before"] == found["new embeddings, old body"].refined == of_loss.value < 0.1
    baseline = task.loss_baselines()["mean_output"]
    assert found["old embeddings, new body"].replaced == min(baseline, of_loss.setting.swapped(before, null))
    assert answer(of_loss, before)[0] == "refined"
    worse = {**before, "unembed": torch.zeros_like(before["unembed"])}
    assert answer(of_loss, worse)[0] == "lost", "a uniform output is no better than the mean one"


def test_swaps_have_both_controls(pathway, solved):
    found, details = by_name(pathway, solved.parameters(2))
    after, value = solved.parameters(2), pathway.setting.swapped
    assert details["controls"] == {
        "new embeddings, another body": value(after, pathway.null),
        "other embeddings, old body": value(pathway.null, pathway.before),
        "old embeddings, another body": value(pathway.before, pathway.null),
        "other embeddings, new body": value(pathway.null, after),
    }
    best = max(value(pathway.null, after), value(pathway.before, pathway.null), pathway.setting.yardstick.baseline)
    assert found["old embeddings, new body"].replaced == best


def test_the_answer_of_several_measures():
    def points(*scores, before=True, after=True):
        named = {str(index): {"score": score, "causal": index < 5} for index, score in enumerate(scores)}
        return [{"measures": named, "above_baseline": {"before": before, "after": after}}]

    assert answer_of(points(0.9, 1.0, 0.8, None, None, 0.0))[0] == "refined", "the last is not causal"
    assert answer_of(points(0.1, 0.0, 0.25, -3.0, 0.1, 1.0))[0] == "replaced"
    counts = {"exceeds": 0, "refined": 4, "between": 0, "replaced": 1, "cannot tell": 0}
    assert answer_of(points(0.9, 0.1, 0.9, 0.9, 0.9, 1.0)) == ("in part", counts)
    assert answer_of(points(0.9, 0.9, 0.9, 0.9, 1.3, 1.0))[0] == "in part"
    assert answer_of(points(1.3, 1.3, 1.3, 1.3, 1.3, 1.0))[0] == "exceeds"
    assert answer_of(points(0.5, 0.5, 0.5, 0.5, 0.5, 1.0))[0] == "in part"
    assert answer_of(points(0.9, 0.9, None, None, None, 1.0))[0] == "cannot tell", "most cannot tell"
    refined = (0.9, 0.9, 0.9, 0.9, 0.9, 1.0)
    assert answer_of(points(*refined, before=False))[0] == "nothing to refine"
    assert answer_of(points(*refined, after=False))[0] == "lost"


@pytest.mark.parametrize(
    "task",
    [
        Needle(max_pairs=3, values=9, vocabulary=20, test_size=70),
        DecimalAddition(digits=2, test_size=70),
        with_target(Imitation(length=3, vocabulary=16, target_width=4, test_size=70)),
    ],
    ids=lambda task: task.name,
)
def test_accuracy_and_loss_are_those_of_training(task, monkeypatch):
    model = ice.Transformer(width=16)
    run = ice.train(task, model, steps=3, batch=8, lr=1e-2, warmup_steps=1, device="cpu")
    expected = evaluate(run.population, task, task.test_set())
    monkeypatch.setattr("icecore.analysis.evaluation.ROWS_AT_ONCE", 32)
    accuracy, loss = accuracy_and_loss(model, run.parameters(0), task, task.test_set())
    assert accuracy == pytest.approx(expected["accuracy"][0])
    assert loss == pytest.approx(expected["loss"][0], rel=1e-5)


def test_a_barrier_is_the_most_above_the_straight_line():
    assert Line((1.0, 2.5, 2.0, 1.0), ()).barrier == 1.5
    assert Line((0.0, 1.0, 2.0, 3.0), ()).barrier == 0.0
    assert Line((3.0, 1.0, 0.0), ()).barrier == 0.0
    assert Line((0.0, 3.0, 2.0), ()).barrier == 2.0


def test_a_line_ends_in_both_networks(solved):
    first, second, items = solved.parameters(0), solved.parameters(1), TASK.test_set()
    line = line_between(MODEL, first, second, TASK, items, points=3)
    for index, parameters in ((0, first), (2, second)):
        assert (line.accuracies[index], line.losses[index]) == accuracy_and_loss(MODEL, parameters, TASK, items)
    middle = {name: (first[name] + second[name]) / 2 for name in first}
    assert line.losses[1] == pytest.approx(accuracy_and_loss(MODEL, middle, TASK, items)[1], rel=1e-4)


def test_displacement_by_hand():
    before = {"a": torch.tensor([[3.0, 0.0]]), "b": torch.tensor([[0.0, 4.0]]), "norm": torch.ones(2)}
    after = {"a": torch.tensor([[3.0, 0.0]]), "b": torch.tensor([[0.0, 1.0]]), "norm": torch.zeros(2)}
    assert displacement(before, after, before) == pytest.approx(3 / 5), "vectors do not count"
    drawn = [initialize(MODEL, ModelDims(8, 3), seed) for seed in (0, 1)]
    assert displacement(drawn[0], drawn[1], drawn[0]) == pytest.approx(math.sqrt(2), rel=0.02)


def test_halves_are_joined(solved):
    first, second = solved.parameters(0), solved.parameters(1)
    mixed = joined(MODEL, solved.config.dims, first, second)
    assert list(mixed) == list(MODEL.specs(solved.config.dims))
    assert all(mixed[name] is (first if name in ("token", "position", "unembed") else second)[name] for name in mixed)


def test_patching_replaces_one_activation_by_anothers(solved):
    first, second, items = solved.parameters(0), solved.parameters(1), TASK.test_set()

    def patched(source, place):
        return accuracy_and_loss(MODEL, first, TASK, items, activations_from(MODEL, source, place))

    for place, expected in (
        ("embedding", {**first, "token": second["token"], "position": second["position"]}),
        ("final", {**second, "unembed": first["unembed"]}),
    ):
        assert patched(first, place)[0] == 1.0
        assert patched(second, place) == accuracy_and_loss(MODEL, expected, TASK, items)
        assert patched(second, place)[0] < 0.5


def test_pair_moments_are_those_of_each_network_whatever_the_chunks(solved, monkeypatch):
    first, second, items = solved.parameters(0), solved.parameters(1), TASK.test_set()
    monkeypatch.setattr("icecore.analysis.evaluation.ROWS_AT_ONCE", 7)
    found = pair_moments(MODEL, first, second, items)
    monkeypatch.undo()
    for place in MODEL.streams:
        for pair, parameters in ((found[place].first, first), (found[place].second, second)):
            own = moments_of(MODEL, parameters, items)[place]
            assert pair.count == own.count
            assert torch.allclose(pair.covariance, own.covariance, atol=1e-5 * float(own.covariance.abs().max()))
    a, b = (MODEL.trace(each, items.tokens)["block0.stream"].flatten(0, 1).double() for each in (first, second))
    a, b = a - a.mean(dim=0), b - b.mean(dim=0)
    expected = (a.T @ b).square().sum() / ((a.T @ a).norm() * (b.T @ b).norm())
    assert found["block0.stream"].cka == pytest.approx(float(expected), rel=1e-4)


def test_cka_ignores_a_rotation_and_sees_independence():
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(4000, 6, generator=generator) for _ in range(2))
    turn = torch.linalg.qr(torch.randn(6, 6, generator=generator)).Q
    for other, cka in ((x, 1.0), (3 * x @ turn + 2, 1.0), (y, 0.0)):
        both = moments.Moments(12)
        both.add(torch.cat([x, other], dim=1))
        assert pairs.split(both, 6).cka == pytest.approx(cka, abs=0.01)


def test_overlap_of_directions_by_hand():
    both = moments.Moments(6)
    first = torch.tensor([[3.0, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 1], [0, 0, -1]])
    second = first[:, [0, 2, 1]]  # its second direction is the first's third
    both.add(torch.cat([first, second], dim=1))
    pair = pairs.split(both, 3)
    assert [pair.subspace_overlap(count) for count in (1, 2, 3)] == pytest.approx([1.0, 0.5, 1.0])


def test_overlap_of_attention_by_hand(solved):
    first, second, items = solved.parameters(0), solved.parameters(1), TASK.test_set()
    assert attention_overlap(MODEL, first, first, items).flatten().tolist() == pytest.approx([1.0] * 8)
    expected = torch.zeros(2, 4)
    for row in items.tokens.tolist():
        maps = [attention_maps(MODEL, each, row) for each in (first, second)]
        expected += torch.minimum(maps[0], maps[1]).sum(dim=3)[:, :, 1:].sum(dim=2)  # the first query sees only itself
    queries = items.tokens.numel() - len(items)
    assert torch.allclose(attention_overlap(MODEL, first, second, items).float(), expected / queries, atol=1e-5)
    assert attention.maps_of(MODEL) == ["block0.attention", "block1.attention"]


def test_scores_of_heads_by_hand(solved):
    first, items = solved.parameters(0), TASK.test_set()
    (found,) = head_scores(MODEL, first, TASK, items).values()
    expected, queries = torch.zeros(2, 4), 0
    for row in items.tokens.tolist():
        maps = attention_maps(MODEL, first, row)
        expected += sum(maps[:, :, query, query - 1] for query in range(1, len(row)))
        queries += len(row) - 1
    assert torch.allclose(torch.tensor(found.of_heads).float(), expected / queries, atol=1e-5)
    assert found.uniform == pytest.approx(1 / 2), "keys of the last of two tokens"
    dims, needle = ModelDims(20, 7), SMALL_NEEDLE
    drawn, batch = initialize(MODEL, dims, 0), needle.test_set()
    scores, steps = head_scores(MODEL, drawn, needle, batch), induction_scores(MODEL, drawn, needle, batch)
    assert scores["value to its marker"].of_heads == steps.value_to_marker.tolist()
    assert scores["query to its value"].uniform == steps.query_to_value_uniform


def test_frequencies_by_hand():
    number = torch.arange(11)
    waves = {k: torch.cos(2 * math.pi * k * number / 11 + k) for k in (1, 2, 5)}
    table = torch.stack([waves[1] + 2, waves[2] + waves[5]], dim=1)
    left = without_frequencies(table, (2, 1))
    assert torch.allclose(left, torch.stack([torch.full((11,), 2.0), waves[5]], dim=1), atol=1e-5)
    assert spectrum_overlap((0.5, 0.5, 0.0), (0.2, 0.0, 0.8)) == pytest.approx(0.2)
    assert spectrum_overlap((0.5, 0.5), (0.5, 0.5)) == 1.0


def test_modular_addition_has_frequencies_and_needle_induction():
    for task, more in ((ModularAddition(modulus=11), {"overlap of frequencies"}), (SMALL_NEEDLE, set())):
        dims = ModelDims(task.vocab_size, task.max_length)
        drawn = [initialize(MODEL, dims, seed) for seed in range(2)]
        if more:
            for each in drawn:  # a wave, so that there are key frequencies
                each["token"][:11, 0] = torch.cos(2 * math.pi * 3 * torch.arange(11) / 11)
        items = task.test_set()
        found, details = by_name(Pathway(Setting(MODEL, dims, task, items, items), *drawn), drawn[0])
        assert set(found) - CAUSAL >= more
        assert more or len(details["head_scores"]["query to its value"]["before"][0]) == MODEL.heads
        if more:
            assert details["key_frequencies"] == details["key_frequencies_before"] == (3,)
            assert found["overlap of frequencies"].here == pytest.approx(1)
            lost = found["old frequencies removed: accuracy lost"]
            assert lost.here == lost.refined == lost.replaced
            flat = {**drawn[0], "token": without_frequencies(drawn[0]["token"], (3,))}
            setting = Setting(MODEL, dims, task, items, items)
            assert without(setting, drawn[0], (3,)) == setting.value(flat)


def test_frequencies_need_a_null_with_other_embeddings():
    """Another body around the same embeddings has the old frequencies, so every change would look replaced."""
    task, dims = ModularAddition(modulus=7), ModelDims(7, 2)
    before, other = (initialize(MODEL, dims, seed) for seed in range(2))
    items = task.test_set()
    setting = Setting(MODEL, dims, task, items, items)
    redrawn = joined(MODEL, dims, before, other)
    names = "overlap of frequencies", "old frequencies removed: accuracy lost"
    found, details = by_name(Pathway(setting, before, redrawn), other)
    assert not any(name in found for name in names)
    assert "key_frequencies_before" in details
    assert names[0] in by_name(Pathway(setting, before, other), before)[0]


SMALL_NEEDLE = Needle(max_pairs=3, values=9, vocabulary=20, test_size=30)


def test_a_model_without_streams_has_fewer_measures():
    class Silent(ice.Transformer):
        @property
        def activations(self):
            return ()

        @property
        def streams(self):
            return ()

    model, task = Silent(width=16), SMALL_NEEDLE
    dims = ModelDims(20, 7)
    drawn = [initialize(model, dims, seed) for seed in range(2)]
    items = task.test_set()
    found, _ = by_name(Pathway(Setting(model, dims, task, items, items), *drawn), drawn[0])
    assert set(found) == {
        "new embeddings, old body",
        "old embeddings, new body",
        "loss barrier on the line",
        "displacement of the body",
    }
