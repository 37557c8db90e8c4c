"""Bodies of one's own: they compute as they are written, and have a name and runs of their own."""

import importlib.util
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from small_runs import MODEL, SHORT, TASK, Stop, stop_after

import icecore as ice
from icecore.cli import main
from icecore.errors import Advice, InputError
from icecore.models import MODELS, Sizes, Transformer, find_model
from icecore.reporting.comparison import points_of
from icecore.store import Records
from icecore.sweeps.comparison import compare, comparison
from icecore.training import RunConfig, pick_precision

EXAMPLES = Path(__file__).parents[1] / "examples"


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
    sizes = {"width": 16, "init": "matched"}
    own, base = (ice.train(TASK, model, **SHORT) for model in (Backwards(**sizes), Transformer(**sizes)))
    assert own.result["loss"] != base.result["loss"]
    test = TASK.test_set()
    logits = own.config.model.logits(own.population.parameters(0), test.tokens)
    right = (logits.argmax(-1) == test.targets)[test.scored].double().mean()
    assert own.accuracy[0] == pytest.approx(float(right)), "what is measured is what it computes"


def test_a_name_that_is_taken_is_refused():
    class Other(Transformer):
        pass

    with pytest.raises(InputError, match="'transformer' is a model of icecore: Other needs a name of its own"):
        ice.train(TASK, Other(width=16), **SHORT)


def test_what_no_fast_path_computes_is_float32():
    assert pick_precision("auto", torch.device("cuda"), MODEL) == "bf16"
    assert pick_precision("auto", torch.device("cuda"), Backwards(width=16)) == "tf32"
    with pytest.raises(InputError, match="backwards computes as it is written, in float32"):
        RunConfig(TASK, Backwards(width=16), Sizes(TASK.vocab_size, TASK.max_length), precision="bf16")


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
    del MODELS["gru"]
    assert main(["evaluate", str(run)]) == 2
    assert "the run has the model 'gru', which is none of transformer, lstm" in capsys.readouterr().err


def test_a_comparison_goes_on_where_it_was(tmp_path, example):
    training = {"steps": 4, "batch": 8, "lr": 1e-2, "warmup_steps": 1}
    bodies = {"gru": [example.GRU(16)], "transformer": [Transformer(width=16)]}
    cells = comparison(TASK, bodies, ["embeddings"], optimization=training)
    done: list[str] = []
    for _ in range(2):
        assert compare(cells, 2, tmp_path, on_done=lambda population, _: done.append(population.label)) == []
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


SHIFTED = """
from dataclasses import dataclass
from typing import ClassVar
from icecore.models import Transformer

@dataclass(frozen=True)
class Shifted(Transformer):
    by: float = 0.0
    name: ClassVar[str] = "shifted"

    def unembed(self, parameters, hidden):
        return super().unembed(parameters, hidden) + self.by
"""
FLAGS = [
    "--max-pairs",
    "3",
    "--values",
    "8",
    "--vocabulary",
    "20",
    "--test-size",
    "100",
    "--steps",
    "4",
    "--batch",
    "8",
]
FLAGS += ["--warmup-steps", "1", "--width", "16", "--device", "cpu", "--out", "runs", "--json"]


def trained_by_command(capsys, *flags: str) -> dict[str, Any]:
    assert main(["train", "needle", "--model", *flags, *FLAGS]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_a_body_in_a_file_trains_on_the_command_line_and_is_kept_with_its_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.py"
    file.write_text(SHIFTED)
    first = trained_by_command(capsys, "mine.py:Shifted")
    assert (Path(first["run"]) / "model.py").read_text() == SHIFTED
    moved = tmp_path / "elsewhere.py"
    file.rename(moved)
    assert main(["evaluate", first["run"], "--json"]) == 0, "its folder is all that a run needs"
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["accuracy"] == first["accuracy"]
    assert main(["keep", first["run"], "--seeds", "0,", "--out", "kept"]) == 0
    assert (tmp_path / "kept" / "needle" / first["run_id"] / "model.py").exists()
    capsys.readouterr()
    assert trained_by_command(capsys, "elsewhere.py")["run_id"] == first["run_id"], "where a file lies is no matter"
    assert trained_by_command(capsys, "elsewhere.py", "--by", "1.5")["run_id"] != first["run_id"]
    moved.write_text(SHIFTED.replace("+ self.by", "- self.by"))
    assert trained_by_command(capsys, "elsewhere.py")["run_id"] != first["run_id"], "another text is another model"
    copy = Path(first["run"]) / "model.py"
    copy.write_text(SHIFTED.replace("+", "-"))
    assert main(["evaluate", first["run"]]) == 2
    assert "is not the model of the run: the file has changed" in capsys.readouterr().err


def test_what_is_wrong_with_the_body_on_the_command_line_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(SHIFTED)
    (tmp_path / "taken.py").write_text(SHIFTED.replace('"shifted"', '"transformer"'))
    (tmp_path / "clash.py").write_text(SHIFTED.replace("by: float", "values: float"))
    for model, more, message in (
        ("mine.py:Shiftet", [], "did you mean 'Shifted'?"),
        ("mine", [], "unknown model 'mine'"),
        ("lstn", [], "did you mean 'lstm'?"),
        ("none.py:A", [], "there is no file none.py"),
        ("mine.py", ["--by", "much"], "by must be a number, got 'much'"),
        ("mine.py", ["--bye", "1"], "unknown flag of train needle 'bye'"),
        ("lstm", ["--by", "1"], "unknown flag of train needle 'by'"),
        ("taken.py", [], "'transformer' is a model of icecore: Shifted needs a name of its own"),
        ("clash.py", [], "--values would be a setting of the task and of the model"),
    ):
        assert main(["train", "needle", "--model", model, *more, *FLAGS]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("error:") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": lambda _, p, tokens: p["token"][tokens][:, :1]}, "hidden of Broken gives the shape"),
        ({"unembed": lambda _, _p, hidden: hidden}, "unembed of Broken gives the shape"),
        ({"unembed": lambda _, p, hidden: hidden @ p["unembed"].T / 0}, "not finite before any training"),
        ({"unembed": lambda _, p, hidden: hidden @ p["unembed"].T + torch.rand(1)}, "must not draw random numbers"),
        ({"unembed": lambda _, p, _hidden: p["nothing"]}, "does not compute \\(KeyError: 'nothing'\\)"),
        ({"unembed": lambda _, p, h: (h - h.mean(0)) @ p["unembed"].T}, "its rows must not see each other"),
        (
            {"unembed": lambda _, p, h: h / (h - h.mean(0)).abs().sum(0) @ p["unembed"].T},
            "its rows must not see each other",
        ),  # nan of one row
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
    from icecore.training.config import text_of

    model = example.GRU(width=16)
    run = ice.train(TASK, model, out=tmp_path, **SHORT)
    before = run.config.run_id
    text_of.cache_clear()
    monkeypatch.setattr("icecore.training.config.inspect.getsource", lambda _: "class GRU: ...")
    assert ice.training.config_of(TASK, model, **SHORT).run_id != before
    with pytest.raises(InputError, match="gru is not the model of the run: the class has changed"):
        ice.load(str(run.path), device="cpu")
    text_of.cache_clear()


LOOKING = """
from dataclasses import dataclass
from typing import ClassVar
import torch
from icecore.models import Model, Spec

@dataclass(frozen=True)
class Looking(Model):
    width: int = 16
    scale: float = SCALE
    name: ClassVar[str] = "looking"
    roles: ClassVar[tuple[str, ...]] = ("token", "unembed", "mix")

    def specs(self, sizes):
        return {
            "token": Spec((sizes.vocab_size, self.width), "token", 0.02),
            "gate": Spec((self.width,), "mix", self.scale),
            "unembed": Spec((sizes.vocab_size, self.width), "unembed", 0.02),
        }

    def hidden(self, parameters, tokens):
        own = parameters["token"][tokens]
        later = torch.cat([own[:, FIRST:], torch.zeros_like(own[:, :FIRST])], dim=1)
        return own + later * parameters["gate"]

    def unembed(self, parameters, hidden):
        return hidden @ parameters["unembed"].T
"""


@pytest.mark.parametrize("scale", ["0.02", "0.0"])
@pytest.mark.parametrize("first", ["1", "5"])
def test_small_and_distant_looks_ahead_are_seen_too(tmp_path, scale, first):
    """Also of a gate that begins at zero, and opens in training."""
    file = tmp_path / "looking.py"
    file.write_text(LOOKING.replace("SCALE", scale).replace("FIRST", first))
    addition = ice.tasks.DecimalAddition(digits=4, test_size=50)
    with pytest.raises(InputError, match="Looking looks ahead"):
        ice.train(addition, find_model(f"{file}:Looking")(), **SHORT)


@pytest.mark.parametrize("drawn", ["torch.randn(16)", "torch.tensor(numpy.random.randn(16)).float()"])
def test_a_file_that_draws_its_body_when_it_is_loaded_is_refused(tmp_path, drawn):
    file = tmp_path / "drawn.py"
    text = LOOKING.replace("SCALE", "0.0").replace('later * parameters["gate"]', "MIX")
    file.write_text(text.replace("FIRST", "1").replace("@dataclass", f"import numpy\nMIX = {drawn}\n\n@dataclass"))
    with pytest.raises(InputError, match="another model each time its file is loaded"):
        ice.train(TASK, find_model(f"{file}:Looking")(), **SHORT)


ODD = {
    "no name": ('    name: ClassVar[str] = "odd"\n', "", "has no name of letters"),
    "no roles": ("    roles", "    rules", "has no roles"),
    "no hidden": ("def hidden", "def hiden", "must define hidden"),
    "specs that fail": ("return {", "return None + {", "the specs of Odd cannot be had"),
    "a check that fails": (
        "    def specs",
        "    def __post_init__(self):\n        assert self.width == 3\n\n    def specs",
        "Odd cannot be made",
    ),
    "no JSON": ("width: int = 16", "width: int = 16\n    kind: object = torch.float32", "which no config can hold"),
    "types that are not there": (
        "width: int = 16",
        "width: int = 16\n    kind: 'Path' = 'a'",
        "the types of Odd's fields",
    ),
    "a flag's name": (
        "width: int = 16",
        "width: int = 16\n    steps: int = 3",
        "train has a flag --steps: give the model's",
    ),
    "an error later": (
        "own = parameters",
        "assert not torch.is_grad_enabled()\n        own = parameters",
        "cannot run Odd",
    ),
}


@pytest.mark.parametrize(("old", "new", "message"), ODD.values(), ids=ODD)
def test_odd_bodies_are_one_line_on_the_command_line(tmp_path, monkeypatch, capsys, old, new, message):
    monkeypatch.chdir(tmp_path)
    text = LOOKING.replace("SCALE", "0.0").replace("FIRST", "1").replace("Looking", "Odd").replace("looking", "odd")
    assert text.count(old) == 1
    (tmp_path / "odd.py").write_text(text.replace(old, new))
    assert main(["train", "needle", "--model", "odd.py:Odd", *FLAGS]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("error:") == 1


def test_a_body_that_fails_in_training_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = LOOKING.replace("SCALE", "0.0").replace("FIRST", "1")
    (tmp_path / "late.py").write_text(
        text.replace("own = par", "assert len(tokens) < 4, 'too many'\n        own = par")
    )
    assert main(["train", "needle", "--model", "late.py:Looking", *FLAGS]) == 2
    assert "late.py:Looking failed in training (AssertionError: too many)" in capsys.readouterr().err
    flags = ["--widths", "16", "--seeds", "1", "--trainable", "all", *FLAGS]
    del flags[flags.index("--width") : flags.index("--width") + 2]
    assert main(["compare", "needle", "--model", "late.py:Looking", "--model", "transformer", *flags]) == 2
    shown = capsys.readouterr()
    assert (
        "failed: needle, Normal, looking 16, seed 0: looking failed in training (AssertionError: too many)" in shown.err
    )
    assert [point["line"] for point in json.loads(shown.out.splitlines()[-1])["points"]] == ["Normal"], (
        "the rest went on"
    )


def test_settings_that_are_tuples_or_made_later_are_kept_and_gone_on_with(tmp_path):
    file = tmp_path / "tuples.py"
    fields = "width: int = 16\n    sizes: tuple[int, ...] = (1, 2)\n    depth: int = field(init=False, default=2)"
    text = LOOKING.replace("SCALE", "0.0").replace("FIRST", "1").replace("width: int = 16", fields)
    file.write_text(text.replace("import dataclass", "import dataclass, field"))
    model = find_model(f"{file}:Looking")()
    with pytest.raises(Stop):
        ice.train(TASK, model, out=tmp_path, log_every=1, checkpoint_every=2, watch=stop_after(5), **SHORT)
    runs = ice.train(TASK, model, out=tmp_path, resume=True, log_every=1, checkpoint_every=2, **SHORT)
    assert vars(ice.load(str(runs.path), "cpu").config.model) == vars(model)


def test_a_body_has_its_own_defaults_not_the_papers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = LOOKING.replace("SCALE", "0.0").replace("FIRST", "1")
    (tmp_path / "own.py").write_text(text.replace("width: int = 16", "width: int = 16\n    init: str = 'orthogonal'"))
    run = trained_by_command(capsys, "own.py:Looking")["run"]
    assert json.loads((Path(run) / "config.json").read_text())["model"]["settings"]["init"] == "orthogonal"


def test_a_subclass_is_neither_exported_nor_looked_into_as_a_transformer(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(SHIFTED)
    run = trained_by_command(capsys, "mine.py:Shifted", "--by", "2")["run"]
    for command in (["export", run, "exported"], ["analyze", run]):
        assert main(command) == 2
        assert "the run has the model shifted" in capsys.readouterr().err


def test_records_agree_wherever_a_file_lay(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(SHIFTED)
        flags = [flag for flag in FLAGS if flag not in ("--width", "16")]
        assert (
            main(
                [
                    "compare",
                    "needle",
                    "--model",
                    f"{folder}/mine.py:Shifted",
                    "--widths",
                    "16",
                    "--seeds",
                    "1",
                    "--trainable",
                    "all",
                    *flags,
                    "--out",
                    folder,
                ]
            )
            == 0
        )
    assert main(["results", "merge", "there", "--results", "here"]) == 0
    assert "0 records added" in capsys.readouterr().out
