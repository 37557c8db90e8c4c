"""Looking inside, on cases whose answer is known beforehand."""

import math
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F

import icecore as ice
from icecore.analysis.attention import Induction, attention_maps, induction_scores
from icecore.analysis.capacity import capacity
from icecore.analysis.circles import (
    circles,
    circularity,
    distance_irrelevance,
    fourier_spectrum,
    gradient_symmetricity,
    random_triples,
)
from icecore.analysis.moments import POSITIONS, Moments, chosen, explained, moments_of
from icecore.analysis.readout import features_of, logistic_readout, ridge_readout
from icecore.analysis.subspaces import Subspace, accuracy_curve, basis_of, counts_up_to, predict_with
from icecore.errors import InputError
from icecore.models import Model, ModelDims, ParameterSpec, Transformer, initialize
from icecore.tasks import DecimalAddition, ModularAddition, Needle, Parentheses


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_three_directions_explain_a_cloud_of_rank_three():
    directions = torch.linalg.qr(normal(20, 3)).Q
    cloud = normal(500, 3, seed=1) * torch.tensor([5.0, 2.0, 1.0]) @ directions.T + 7
    moments = Moments(20)
    for part in cloud.split([1, 99, 0, 400]):  # however it comes
        moments.add(part)
    assert moments.count == 500
    assert torch.allclose(moments.mean, cloud.double().mean(dim=0), atol=1e-5)
    assert torch.allclose(moments.covariance, torch.cov(cloud.double().T, correction=0), atol=1e-4)
    assert explained(moments, 3).directions == pytest.approx(1, abs=1e-6)
    one = explained(moments, 1)
    assert one.directions == pytest.approx(25 / 30, abs=0.03), "the variance of the first of 25 + 4 + 1"
    assert one.neurons == pytest.approx(float(cloud.var(dim=0).max() / cloud.var(dim=0).sum()), abs=1e-5)
    assert abs(float(moments.directions(1)[:, 0] @ directions[:, 0].double())) > 0.99


def test_moments_hold_no_more_for_more_activations():
    def bytes_held(moments: Moments) -> int:
        return sum(value.nbytes for value in vars(moments).values() if isinstance(value, torch.Tensor))

    moments = Moments(16)
    held = []
    for _ in range(20):
        moments.add(torch.randn(100, 16))
        held.append(bytes_held(moments))
    assert set(held) == {16 * 8 + 16 * 16 * 8}
    assert moments.count == 2000


def test_a_far_mean_costs_no_precision():
    cloud = normal(4000, 8).double() + 1e3
    moments = Moments(8)
    for part in cloud.float().split(100):
        moments.add(part)
    assert torch.allclose(moments.covariance, torch.cov(cloud.T, correction=0), atol=1e-2)


def test_positions_are_the_ones_that_their_names_say():
    batch = DecimalAddition(digits=2).test_set()[:1]
    length, places = int(batch.lengths[0]), batch.tokens.shape[1]
    counts = {name: int(chosen(batch, name).sum()) for name in POSITIONS}
    assert counts == {"all": places, "read": length, "scored": int(batch.scored.sum()), "last": 1}
    assert bool(batch.scored[0, chosen(batch, "last")[0]].all())


SMALL = Needle(max_pairs=3, values=5, vocabulary=12, test_size=60)
DIMS = ModelDims(12, 8)


def test_moments_of_a_model_are_those_of_its_trace():
    model, batch = Transformer(width=16, init="matched"), SMALL.test_set()
    parameters = initialize(model, DIMS, 0)
    found = moments_of(model, parameters, [batch[:25], batch[25:]], "read")
    values = model.trace(parameters, batch.tokens)
    for place in ("embedding", "block0.stream", "block1.stream", "final"):
        expected = values[place][chosen(batch, "read")].double()
        assert found[place].count == len(expected)
        assert torch.allclose(found[place].covariance, torch.cov(expected.T, correction=0), atol=1e-6)


def test_subspaces_keep_and_remove():
    basis = torch.linalg.qr(normal(6, 2)).Q
    subspace, x = Subspace(torch.ones(6), basis), normal(5, 6, seed=1)
    kept, removed = subspace.keep(x), subspace.remove(x)
    assert torch.allclose((kept - 1) @ basis, (x - 1) @ basis, atol=1e-6)
    assert torch.linalg.matrix_rank(kept - 1) == 2
    assert torch.allclose(kept + removed, x + 1, atol=1e-6)
    assert torch.allclose(removed @ basis, torch.ones(6) @ basis, atol=1e-5)


@pytest.fixture(scope="module")
def trained() -> Any:
    task = Needle(max_pairs=2, values=4, vocabulary=10, test_size=20)
    return ice.train(task, Transformer(width=32, init="matched"), steps=250, batch=64, lr=2e-2, warmup_steps=20)


def test_all_directions_are_enough_and_none_are_not(trained):
    model, task, parameters = trained.config.model, trained.config.task, trained.population.parameters(0)
    sample = task.sample(300, torch.Generator().manual_seed(0))
    moments = moments_of(model, parameters, sample)
    untrained = moments_of(model, initialize(model, trained.config.dims, 0), sample)
    batch = task.test_set()
    for basis in ("directions", "neurons", "random", "untrained"):
        kept = accuracy_curve(model, parameters, task, batch, moments, untrained, (1, 32), basis)
        assert kept.accuracy[1] == pytest.approx(trained.accuracy[0]), basis
        removed = accuracy_curve(model, parameters, task, batch, moments, untrained, (32,), basis, "remove")
        assert removed.accuracy[0] < trained.accuracy[0], basis
    everything = basis_of("directions", 32, moments["embedding"], untrained["embedding"])
    gone = Subspace(moments["embedding"].mean.float(), everything.float()).remove
    answers = predict_with(model, parameters, batch, {"embedding": gone})[batch.scored]
    assert len(answers.unique()) == 1, "where nothing of the input is left, every answer is the same"


def test_counts_end_with_the_width():
    assert counts_up_to(32) == (1, 2, 5, 10, 20, 32)
    assert counts_up_to(10) == (1, 2, 5, 10)


def induction_by_hand() -> tuple[Transformer, dict[str, torch.Tensor]]:
    """A model built to look up: head 1 of layer 1 copies the token before, head 1 of layer 2 finds the marker's copy.

    The stream has a part for tokens (12), one for positions (8) and one for copies (12); a head has 16 channels.
    """
    model = Transformer(width=32, heads=2)
    parameters = {name: torch.zeros_like(value) for name, value in initialize(model, DIMS, 0).items()}
    for name, value in parameters.items():
        if name.endswith("norm.weight"):
            value.fill_(1)
    parameters["token"][:, :12] = 8 * torch.eye(12)
    parameters["position"][:, 12:20] = 8 * torch.eye(8)
    eye, sharp = torch.eye(12), 20.0
    parameters["block0.q.weight"][:8, 12:20] = sharp * torch.eye(8).roll(1, dims=1)  # position i asks for i - 1
    parameters["block0.k.weight"][:8, 12:20] = torch.eye(8)
    parameters["block0.v.weight"][:12, :12] = eye
    parameters["block0.out.weight"][20:32, :12] = eye
    asks = torch.zeros((12, 12))
    for marker in range(SMALL.markers):  # a query asks for its marker
        asks[SMALL.first_marker + marker, SMALL.first_query + marker] = 1
    parameters["block1.q.weight"][:12, :12] = sharp * asks
    parameters["block1.k.weight"][:12, 20:32] = eye
    parameters["block1.k.weight"][:12, :12] = -eye  # not the first token, which has only itself to copy
    return model, parameters


def test_a_constructed_induction_head_is_found():
    model, parameters = induction_by_hand()
    found = induction_scores(model, parameters, SMALL, SMALL.test_set())
    first, second = Induction.best(found.value_to_marker), Induction.best(found.query_to_value)
    assert (first.layer, first.head) == (1, 1)
    assert (second.layer, second.head) == (2, 1)
    assert first.score > 0.99
    assert second.score > 0.99
    assert found.value_to_marker[:, 1].tolist() == pytest.approx([found.value_to_marker_uniform] * 2, abs=1e-6)
    assert found.query_to_value[:, 1].tolist() == pytest.approx([found.query_to_value_uniform] * 2, abs=1e-6)
    untrained = induction_scores(model, initialize(model, DIMS, 0), SMALL, SMALL.test_set())
    for scores, uniform in (
        (untrained.value_to_marker, untrained.value_to_marker_uniform),
        (untrained.query_to_value, untrained.query_to_value_uniform),
    ):
        assert float((scores - uniform).abs().max()) < 0.02, "an untrained model looks everywhere alike"
    maps = attention_maps(model, parameters, SMALL.read("a 1 b 2 c 3 b"))
    assert maps.shape == (2, 2, 7, 7)
    assert int(maps[1, 0, 6].argmax()) == 3, "the query looks at the value of b"
    assert [int(maps[0, 0, place].argmax()) for place in (1, 3, 5)] == [0, 2, 4]


def test_linearized_attention_has_no_map():
    model = Transformer(width=16, attention="prefix-sum")
    with pytest.raises(InputError, match="transformer with these settings has no attention maps"):
        attention_maps(model, initialize(model, DIMS, 0), (1, 2))


def test_an_exact_circle_is_one():
    angle = 2 * math.pi * 3 * torch.arange(31, dtype=torch.float64) / 31
    circle = torch.stack([angle.cos(), angle.sin()], dim=1) @ normal(2, 10).double()
    found = circles(circle + 1e-9 * normal(31, 10).double())
    assert found.by_component[:2] == pytest.approx((1, 1), abs=1e-6)
    assert found.key_frequencies == (3,)
    assert found.spectrum[2] == pytest.approx(1, abs=1e-6)
    assert circularity(normal(401)) < 0.1, "noise has no frequency"
    alternating = torch.tensor([1.0, -1.0] * 6)
    slow = torch.cos(torch.arange(12) * 2 * torch.pi / 12) * 2**0.5
    assert circularity(alternating) == pytest.approx(1), "the fastest wave of an even number is one wave too"
    assert circularity(alternating + slow) == pytest.approx(0.5), "of two that are as large each has a half"
    assert fourier_spectrum(torch.stack([alternating, slow], dim=1)) == pytest.approx((0.5, 0, 0, 0, 0, 0.5))
    two = torch.cat([circle, 0.8 * circle[torch.arange(31) * 2 % 31]], dim=1)
    assert circles(two).key_frequencies == (3, 6)


class Adder(Model):
    """Logits that are a known function of a and b."""

    name = "adder"
    roles = ("token",)

    @property
    def activations(self):
        return ("embedding",)

    def __init__(self, table: torch.Tensor) -> None:
        self.table = table

    def specs(self, dims):
        return {"token": ParameterSpec((dims.vocab_size, 1), "token")}

    def hidden(self, parameters, tokens, hook=None):
        embedded = F.one_hot(tokens, len(self.table)).float()
        embedded = hook("embedding", embedded) if hook else embedded
        last = torch.einsum("na,nb,abc->nc", embedded[:, 0], embedded[:, 1], self.table)
        return torch.stack([last, last], dim=1)

    def unembed(self, parameters, hidden):
        return hidden


def test_metrics_of_modular_addition_by_hand():
    p = 7
    a, b, c = torch.meshgrid(torch.arange(p), torch.arange(p), torch.arange(p), indexing="ij")
    parameters = {"token": torch.zeros(p, 1)}
    of_sum = Adder(((a + b) % p == c) * (1.0 + c))
    assert distance_irrelevance(of_sum, parameters, p) == pytest.approx(1), "the right logit is one of the sum alone"
    of_difference = Adder(((a + b) % p == c) * (1.0 + (a - b) % p))
    assert distance_irrelevance(of_difference, parameters, p) == pytest.approx(0)
    wrong = ((a + b + 1) % p == c) * (1.0 + (a - b) % p)  # the largest wrong logit is one of the difference
    both = Adder(((a + b) % p == c) * (10.0 + c) + wrong)
    assert distance_irrelevance(both, parameters, p, "right") == pytest.approx(1)
    assert distance_irrelevance(both, parameters, p, "largest-wrong") == pytest.approx(0)
    triples = random_triples(p)
    assert len(set(triples)) == 100
    assert all(0 <= number < p for triple in triples for number in triple)
    # The gradient of logit c is the table's row: for a, over all a with this b; for b, over all b with this a.
    table = normal(p, p, p, seed=3)
    expected = [torch.cosine_similarity(table[:, j, k], table[i, :, k], dim=0) for i, j, k in triples]
    found = gradient_symmetricity(Adder(table), parameters, p)
    assert found == pytest.approx(float(torch.stack(expected).mean()), abs=1e-6)
    symmetric = Adder(table + table.transpose(0, 1))
    assert gradient_symmetricity(symmetric, parameters, p) != pytest.approx(found)


def test_half_a_table_is_half_its_bits():
    right = torch.arange(1000) % 2
    knows_half = torch.where(right == 1, 0.0, math.log(512) + 1.0)  # sure of one half, worse than chance at the other
    found = capacity(right, knows_half, 512, trained_parameters=100, parameters=400)
    assert found.accuracy_bits == pytest.approx(500 * 9)
    assert found.loss_bits == pytest.approx(500 * 9)
    assert found.loss_bits_per_trained == pytest.approx(45)
    assert found.accuracy_bits_per_parameter == pytest.approx(11.25)
    guesses = capacity(torch.zeros(1000), torch.full((1000,), math.log(512)), 512, 1, 1)
    assert guesses.loss_bits == pytest.approx(0, abs=1e-3)


def test_a_solved_readout_is_at_least_as_good_as_a_trained_one():
    task = Parentheses(max_pairs=4, min_length=4, test_size=50)
    model = Transformer(width=32, init="matched")
    runs = ice.train(task, model, "unembed", steps=150, batch=64, lr=1e-2, warmup_steps=10)
    parameters = initialize(model, runs.config.dims, 0)
    train = task.sample(1500, torch.Generator().manual_seed(0))
    features, answers = features_of(model, parameters, train)
    ridge = ridge_readout(model, parameters, task.vocab_size, train, task.test_set())
    logistic = logistic_readout(model, parameters, task.vocab_size, train, task.test_set())
    assert ridge.items == logistic.items == 1500
    from_steps = ((features @ runs.population.trained["unembed"][0].T).argmax(dim=1) == answers).float().mean()
    # Both minimize a loss, not errors: the one that U is trained by, and squares, which are a poorer stand-in.
    assert logistic.train_accuracy >= float(from_steps) - 0.01
    assert ridge.train_accuracy >= float(from_steps) - 0.05


def test_ridge_finds_a_readout_that_exists():
    class Given:
        def hidden(self, _parameters, tokens):
            return F.one_hot(tokens, 12).float() @ normal(12, 16)

    batch = SMALL.test_set()
    batch = type(batch)(batch.tokens, batch.tokens, batch.scored)  # the answer is the token itself
    found = ridge_readout(cast(Any, Given()), {"token": torch.zeros(1)}, 12, batch, batch)
    assert found.test_accuracy == 1


def test_prompts_are_read_in_the_tasks_own_notation():
    needle = Needle()
    assert needle.read("a 1 b 2 c 3 d 4 b?") == (128, 1, 129, 2, 130, 3, 131, 4, 159)
    assert needle.words(needle.read("a 1 b 2 b")) == ["a", "1", "b", "2", "b?"]
    assert DecimalAddition(digits=2).read("93+17= 0") == (9, 3, 10, 1, 7, 11, 20)
    assert DecimalAddition(digits=2).words((9, 3, 10, 1, 7, 11, 20, 30)) == ["9", "3", "+", "1", "7", "=", "0", "."]
    assert Parentheses().read("(()") == Parentheses().read("( ( ) ?") == (1, 1, 2, 3)
    assert Parentheses().words((1, 2, 3)) == ["(", ")", "?"]
    assert ModularAddition().read("150 100") == (150, 100)
    for task, text in (
        (needle, "a 1 b 2"),
        (needle, "a 500 a"),
        (DecimalAddition(digits=2), "9+1="),
        (Parentheses(), "(x)"),
        (ModularAddition(), "3 200"),
        (ModularAddition(), "3 x"),
    ):
        with pytest.raises(InputError):
            task.read(text)
