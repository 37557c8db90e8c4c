"""Bodies of one's own: they compute as they are written, and have a name and runs of their own."""

import importlib.util
import itertools
import json
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from references import reference_results, results_by_place, shaken
from small_runs import MODEL, SHORT, TASK

import icecore as ice
from icecore.cli import main
from icecore.errors import Advice, InputError
from icecore.models import MODELS, ModelDims, ParameterSpec, Transformer, same_forward_pass
from icecore.models.base import initial_value
from icecore.models.engines import Engine, ReferenceEngine
from icecore.models.engines.prefix_index import PrefixIndex
from icecore.models.initializers import Normal, Orthogonal, Sinusoidal
from icecore.reporting.comparison import points_of
from icecore.store import Records
from icecore.sweeps.comparison import comparison, train_missing
from icecore.training import Population, RunConfig, pick_precision

EXAMPLES = Path(__file__).parents[1] / "examples"
CALLS = itertools.count()  # differs each time, as a random number may not


@pytest.fixture
def example(monkeypatch):
    """The example's module; the model that it registers is taken out again."""
    before = dict(MODELS)
    spec = importlib.util.spec_from_file_location("own_body", EXAMPLES / "own_body.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "own_body", module)
    spec.loader.exec_module(module)
    yield module
    MODELS.clear()
    MODELS.update(before)


@dataclass(frozen=True)
class Backwards(Transformer):
    """Reads its sequence from the end, which no fast path knows of."""

    name: ClassVar[str] = "backwards"

    def hidden(self, parameters, tokens, hook=None):
        return super().hidden(parameters, tokens.flip(1), hook).flip(1)


def test_a_subclass_computes_as_it_is_written():
    dims = {"width": 16, "init": "matched"}
    own, base = (ice.train(TASK, model, **SHORT) for model in (Backwards(**dims), Transformer(**dims)))
    assert own.result["loss"] != base.result["loss"]
    test = TASK.test_set()
    logits = own.config.model.logits(own.population.parameters(0), test.tokens)
    right = (logits.argmax(-1) == test.targets)[test.scored].double().mean()
    assert own.accuracy[0] == pytest.approx(float(right)), "what is measured is what it computes"


@dataclass(frozen=True)
class OrthogonalBody(Transformer):
    name: ClassVar[str] = "orthogonal"

    def specs(self, dims):
        each = super().specs(dims)
        body = {
            name: replace(spec, init=Orthogonal(spec.initializer.std))
            for name, spec in each.items()
            if "/" in spec.role and isinstance(spec.initializer, Normal)
        }
        assert body
        return each | body


def test_a_subclass_that_begins_otherwise_has_the_fast_path():
    model = OrthogonalBody(width=16, init="matched")
    assert same_forward_pass(model, Transformer)
    assert pick_precision("auto", torch.device("cuda"), model) == "bf16"
    population = Population(
        model, ModelDims(TASK.vocab_size, 8), (0,), "embeddings", torch.device("cpu"), dtype=torch.float64
    )
    batch = TASK.test_set()[:50]
    assert isinstance(population.prepare(batch).inputs, PrefixIndex)
    ours, reference = (results(population, batch)["logits"] for results in (results_by_place, reference_results))
    assert torch.allclose(ours, reference, rtol=1e-9)
    plain = Population(Transformer(width=16, init="matched"), population.dims, (0,), "embeddings", torch.device("cpu"))
    assert not torch.allclose(plain.frozen["block0.v.weight"].double(), population.frozen["block0.v.weight"])


@pytest.mark.parametrize("changed", ["activate", "unembed", "attend", "specs"])
def test_a_subclass_that_computes_otherwise_has_not(changed):
    def specs(self, dims):
        return {name: spec for name, spec in Transformer.specs(self, dims).items() if not name.endswith("mlp_in.bias")}

    method = specs if changed == "specs" else lambda self, *inputs: getattr(Transformer, changed)(self, *inputs)
    model = dataclass(frozen=True)(type("Other", (Transformer,), {"name": "other", changed: method}))(width=16)
    assert not same_forward_pass(model, Transformer)
    assert model.engine is ReferenceEngine


@pytest.mark.parametrize("shape", [(40, 10), (10, 40), (12, 12)])
def test_orthogonal_matrices_have_the_spread_of_normal_ones(shape):
    spec = ParameterSpec(shape, "mlp", Orthogonal(0.5))
    value = initial_value(spec, "name", 3)
    longest = max(shape)
    gram = value.T @ value if shape[0] == longest else value @ value.T
    assert torch.allclose(gram, longest * 0.25 * torch.eye(min(shape)), atol=1e-4)
    assert float(value.std()) == pytest.approx(0.5, rel=0.15)
    assert torch.equal(value, initial_value(spec, "name", 3))
    with pytest.raises(InputError, match=r"Orthogonal initializes matrices, got the shape \(3,\)"):
        initial_value(ParameterSpec((3,), "mlp", Orthogonal(0.5)), "name", 3)


def test_sinusoidal_positions_are_those_of_the_formula():
    value = initial_value(ParameterSpec((3, 5), "position", Sinusoidal()), "position", 3)
    by_hand = [
        [
            (math.sin if column % 2 == 0 else math.cos)(position / 10_000 ** ((column - column % 2) / 5))
            for column in range(5)
        ]
        for position in range(3)
    ]
    assert torch.allclose(value, torch.tensor(by_hand), atol=1e-6)  # float32 has 7 digits
    assert torch.equal(value, initial_value(ParameterSpec((3, 5), "position", Sinusoidal()), "position", 4))


def test_a_name_that_is_taken_is_refused():
    class Other(Transformer):
        pass

    with pytest.raises(InputError, match="'transformer' is a model of icecore: Other needs a name of its own"):
        ice.train(TASK, Other(width=16), **SHORT)


def test_what_no_fast_path_computes_is_float32():
    assert pick_precision("auto", torch.device("cuda"), MODEL) == "bf16"
    assert pick_precision("auto", torch.device("cuda"), Backwards(width=16)) == "tf32"
    with pytest.raises(InputError, match="backwards does not compute in bf16: use fp32 or tf32"):
        RunConfig(TASK, Backwards(width=16), ModelDims(TASK.vocab_size, TASK.max_length), precision="bf16")


def test_a_role_that_no_model_has_is_refused(example):
    class Odd(example.GRU):
        name = "odd"
        roles = ("token", "unembed")

    with pytest.raises(InputError, match="unknown role of odd's parameter from_input 'recurrent'"):
        ice.train(TASK, Odd(width=16), "all", **SHORT)


def test_a_run_that_could_not_be_loaded_is_not_begun(tmp_path, example):
    with pytest.raises(InputError, match=r"find_model\('FILE.py:Backwards'\), or register it"):
        ice.train(TASK, Backwards(width=16), out=tmp_path, **SHORT)

    @dataclass(frozen=True)
    class OfANotebook(type(TASK)):
        name: ClassVar[str] = "of-a-notebook"

    with pytest.raises(InputError, match=r"make_task\('FILE.py:OfANotebook'\)"):
        ice.train(OfANotebook(max_pairs=3), MODEL, out=tmp_path, **SHORT)
    assert list(tmp_path.iterdir()) == []
    runs = ice.train(TASK, example.GRU(width=16), out=tmp_path, **SHORT)
    assert ice.train(TASK, example.GRU(width=16), out=tmp_path, **SHORT).accuracy == runs.accuracy


def test_a_model_that_is_not_known_is_named(tmp_path, example, capsys):
    run = ice.train(TASK, example.GRU(width=16), out=tmp_path, **SHORT).path
    del MODELS["my-gru"]
    assert main(["evaluate", str(run)]) == 2
    assert "the run has the model 'my-gru', which is none of transformer, lstm" in capsys.readouterr().err


def test_a_comparison_goes_on_where_it_was(tmp_path, example):
    training = {"steps": 4, "batch": 8, "lr": 1e-2, "warmup_steps": 1}
    bodies = {"gru": [example.GRU(16)], "transformer": [Transformer(width=16)]}
    cells = comparison(TASK, bodies, ["embeddings"], training=training)
    done: list[str] = []
    for _ in range(2):
        assert train_missing(cells, 2, tmp_path, on_done=lambda population, _: done.append(population.label)) == []
    assert done == ["needle, Random, gru 16, seeds 0, 1", "needle, Random 16, seeds 0, 1"], "once, then it is recorded"
    assert [point.line for point in points_of(cells, 2, Records(tmp_path))] == ["Random, gru", "Random"]
    records = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert {record["config"]["precision"] for record in records} == {"fp32"}


def test_a_run_is_loaded_in_python(tmp_path):
    runs = ice.train(TASK, MODEL, out=tmp_path, **SHORT)
    again = ice.load(str(runs.path), device="cpu")
    assert again.accuracy == runs.accuracy
    assert again.config == runs.config
    for name, value in runs.population.parameters(0).items():
        assert torch.equal(value, again.population.parameters(0)[name]), name


def test_python_is_warned_of_a_run_within_its_warm_up():
    settings: dict[str, Any] = SHORT | {"warmup_steps": 400}
    with pytest.warns(Advice, match="all 12 steps are within the warm-up of 400"):
        ice.train(TASK, MODEL, **settings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": lambda _, p, tokens: p["token"][tokens][:, :1]}, "hidden of Broken returns shape"),
        ({"unembed": lambda _, _p, hidden: hidden}, "unembed of Broken returns shape"),
        ({"unembed": lambda _, p, hidden: hidden @ p["unembed"].T / 0}, "not finite before any training"),
        ({"unembed": lambda _, p, hidden: hidden @ p["unembed"].T + torch.rand(1)}, "must not draw random numbers"),
        (
            {"unembed": lambda _, p, _hidden: p["nothing"]},
            "failed before training \\(KeyError: 'nothing', in test_own_models.py line ",
        ),
        ({"unembed": lambda _, p, h: (h - h.mean(0)) @ p["unembed"].T}, "its rows must not see each other"),
        (
            {"unembed": lambda _, p, h: h / (h - h.mean(0)).abs().sum(0) @ p["unembed"].T},
            "its rows must not see each other",
        ),  # nan of one row
        ({"unembed": lambda _, p, h: h.cumsum(0) @ p["unembed"].T}, "its rows must not see each other"),  # but for one
        (
            {"unembed": lambda _, p, h: torch.dropout(h, 0.5, torch.is_grad_enabled()) @ p["unembed"].T},
            "different logits in training",
        ),
        (
            {"unembed": lambda _, p, h: h @ p["unembed"].T * (1 + torch.is_grad_enabled())},
            "different logits in training",
        ),  # the same each time
        (
            {"unembed": lambda _, p, h: h @ p["unembed"].T * (1 + 1e-6 * torch.is_grad_enabled() * next(CALLS))},
            "different logits in training",
        ),  # hardly others
        ({"unembed": lambda _, p, h: (h @ p["unembed"].T).half()}, "unembed of Broken returns torch.float16"),
        ({"name": "a body"}, "has no name of letters"),
        ({"vectorizes": True}, "torch.func.vmap, which trains many seeds at once, cannot run Broken"),
    ],
)
def test_a_body_that_breaks_the_contract_is_not_trained(example, change, message):
    broken = type("Broken", (example.GRU,), {"name": "broken", **change})
    with pytest.raises(InputError, match=message):
        ice.train(TASK, broken(width=16), **SHORT)


def test_only_where_no_answer_comes_later_may_a_body_look_ahead():
    ice.train(TASK, Backwards(width=16), **SHORT)  # its one answer is at the end
    addition = ice.tasks.DecimalAddition(digits=2, test_size=50)
    with pytest.raises(InputError, match="Backwards looks ahead, where the task's later tokens hold its answers"):
        ice.train(addition, Backwards(width=16), **SHORT)


def test_a_registered_class_that_has_changed_is_another_model(tmp_path, example, monkeypatch):
    from icecore.training.identity import text_of

    model = example.GRU(width=16)
    run = ice.train(TASK, model, out=tmp_path, **SHORT)
    before = run.config.run_id
    text_of.cache_clear()
    monkeypatch.setattr("icecore.training.identity.inspect.getsource", lambda _: "class GRU: ...")
    assert ice.training.config_of(TASK, model, **SHORT).run_id != before
    with pytest.raises(InputError, match="my-gru is not the model of the run: the class has changed"):
        ice.load(str(run.path), device="cpu")
    text_of.cache_clear()


@dataclass(frozen=True)
class Bag(ice.models.Model):
    """The mean of the tokens so far; positions do not matter, so neither does its engine's order of sums."""

    width: int = 16
    name: ClassVar[str] = "bag"
    roles: ClassVar[tuple[str, ...]] = ("token", "unembed")

    def specs(self, dims):
        return {role: ParameterSpec((dims.vocab_size, self.width), role, 0.5) for role in self.roles}

    def hidden(self, parameters, tokens):
        counts = torch.arange(1, tokens.shape[1] + 1)[:, None]
        return parameters["token"][tokens].cumsum(dim=1) / counts

    def unembed(self, parameters, hidden):
        return hidden @ parameters["unembed"].T

    @property
    def engine(self):
        return BagEngine


class BagEngine(Engine[Bag]):
    """Counts tokens up to the scored positions, for all seeds at once."""

    unembedding = "unembed"
    taken: ClassVar[list[int]] = []

    @classmethod
    def prepare(cls, batches, buckets=None):
        return ReferenceEngine.prepare(batches, buckets)

    def hidden(self, inputs):
        self.taken.append(self.seeds)
        counts = torch.nn.functional.one_hot(inputs.tokens, self.parameters["token"].shape[1]).cumsum(dim=1)
        shares = counts / counts.sum(dim=2, keepdim=True)
        return shares[inputs.at.rows, inputs.at.columns].to(self.dtype) @ self.parameters["token"]

    def logits(self, inputs):
        return self.hidden(inputs) @ self.parameters["unembed"].transpose(1, 2)


def test_a_body_of_ones_own_may_have_an_engine_of_its_own():
    population = shaken(
        Population(Bag(), ModelDims(TASK.vocab_size, 8), (0, 1), "all", torch.device("cpu"), dtype=torch.float64)
    )
    batch = TASK.test_set()[:50]
    ours, reference = results_by_place(population, batch), reference_results(population, batch)
    assert ours.keys() == reference.keys() >= {"token", "unembed"}
    for name, value in ours.items():
        assert torch.allclose(value, reference[name], rtol=1e-6, atol=1e-9), name  # shares are float32
    BagEngine.taken.clear()
    runs = ice.train(TASK, Bag(), "all", **SHORT)
    assert set(BagEngine.taken) == {2}, "both seeds at once"
    assert runs.result["loss"][0] < math.log(TASK.vocab_size)
