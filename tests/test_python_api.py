"""icecore in Python: what a notebook user types, gets and gets wrong."""

import sys
import time
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
import torch
from matplotlib.figure import Figure
from small_runs import MODEL, SHORT, TASK

import icecore as ice
from icecore.errors import InputError
from icecore.training import loop
from icecore.training.loop import Trainer
from icecore.training.progress import Intervals


@dataclass(frozen=True)
class OfANotebook(type(TASK)):
    """A class that no file holds, as far as a run's folder knows."""

    name: ClassVar[str] = "of-a-notebook"


@pytest.fixture(scope="module")
def run():
    return ice.train(TASK, MODEL, **SHORT)


def test_tasks_may_be_named_and_roles_listed():
    named = ice.train("modular-addition", MODEL, ["token", "norm"], steps=2, batch=8, warmup_steps=1)
    given = ice.train(ice.tasks.ModularAddition(), MODEL, "token,norm", steps=2, batch=8, warmup_steps=1)
    assert named.config == given.config


@pytest.mark.parametrize(
    ("task", "model", "trainable", "message"),
    [
        ("needel", MODEL, "all", "did you mean 'needle'"),
        (ice.tasks.Needle, MODEL, "all", r"give a task, not its class: Needle\(...\)"),
        (3, MODEL, "all", "task must be a Task or the name of one, got int"),
        (TASK, ice.Transformer, "all", r"give a model, not its class: Transformer\(width=64\)"),
        (TASK, "transformer", "all", "model must be a Model, such as"),
        (TASK, MODEL, [], "trainable must be a name or a list of names"),
        (TASK, MODEL, 5, "trainable must be a name or a list of names"),
        (TASK, MODEL, None, "trainable must be a name or a list of names"),
        (TASK, MODEL, ["al"], "unknown role of transformer 'al'"),
    ],
)
def test_wrong_arguments_are_one_line(task, model, trainable, message):
    with pytest.raises(InputError, match=message):
        ice.train(cast(Any, task), cast(Any, model), cast(Any, trainable), **SHORT)


def test_a_rate_in_words_is_one_line():
    with pytest.raises(InputError, match="lr must be a number, got '1e-3'"):
        ice.train(TASK, MODEL, lr="1e-3")


def test_a_run_says_what_it_is_in_a_line(run):
    first, second = (f"{value:.3f}" for value in run.accuracy)
    assert repr(run) == (
        f"TrainedRun(needle, transformer of width 16, embeddings trained, 2 seeds: accuracy {first}, {second})"
    )


def test_a_prediction_is_what_the_model_says(run):
    found = run.predict("a 1 b 2 a", top=3)
    assert list(found) == [0, 1]
    tokens = torch.tensor([TASK.read("a 1 b 2 a")])
    for seed, words in found.items():
        chances = MODEL.logits(run.parameters(seed), tokens)[0, -1].softmax(dim=0)
        assert [chance for _, chance in words] == pytest.approx(chances.topk(3).values.tolist())
        assert words[0][0] == TASK.words([int(chances.argmax())])[0]
    assert run.predict(TASK.read("a 1 b 2 a"), top=3) == found
    with pytest.raises(InputError, match="needle reads markers"):
        run.predict("z")
    with pytest.raises(InputError, match="has the tokens 0 to 39, not"):
        run.predict([40])


def test_a_plot_has_a_line_per_seed(run):
    figure = run.plot()
    assert isinstance(figure, Figure)
    loss, accuracy = figure.axes
    assert (len(loss.lines), len(accuracy.lines)) == (2, 2)
    rows = [row for row in run.metrics if "loss" in row]
    assert list(cast(Any, loss.lines[1]).get_ydata()) == [row["loss"][1] for row in rows]


def test_a_task_of_a_notebook_is_compared_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    training: Any = {"steps": 3, "batch": 8, "warmup_steps": 1}
    task = OfANotebook(max_pairs=3, values=20, vocabulary=40, test_size=50)
    found = ice.compare(task, [MODEL, ice.LSTM(16)], ["embeddings", "all"], seeds=2, out=None, **training)
    assert list(tmp_path.iterdir()) == []
    assert [(point.line, len(point.values)) for point in found] == [
        ("Random", 2),
        ("Normal", 2),
        ("Random, lstm", 2),
        ("Normal, lstm", 2),
    ]
    alone = ice.train(task, MODEL, seeds=2, **training)
    assert found[0].values == tuple(sorted(100 * value for value in alone.accuracy))
    assert found.table().headings == ("width", "16")
    baseline = 100 * max(task.baselines().values())
    assert found.table().notes == (f"of-a-notebook: a rule that needs no learning gets {baseline:.1f} %",)
    assert found._repr_html_() == found.table()._repr_html_()
    assert isinstance(found.plot(), Figure)
    with pytest.raises(InputError, match=r"^a saved run must be able to load OfANotebook: .*out=None$"):
        ice.compare(task, MODEL, ["embeddings", "all"], seeds=1, out=tmp_path, **training)
    assert list(tmp_path.iterdir()) == [], "nothing has begun"


def test_tasks_are_compared_by_name(tmp_path):
    found = ice.compare("modular-addition", MODEL, "unembed", 1, out=tmp_path, steps=2, batch=8, warmup_steps=1)
    assert [(point.task, point.line) for point in found] == [("modular-addition", "U only")]


def test_one_part_and_one_model_need_no_list():
    training: Any = {"steps": 2, "batch": 8, "warmup_steps": 1, "out": None, "seeds": 1}
    found = ice.compare(TASK, {"small": MODEL}, [["token", "unembed"], "all"], **training)
    assert [point.line for point in found] == ["token,unembed, small", "Normal, small"]
    with pytest.raises(InputError, match=r"unknown training setting 'seed': did you mean 'seeds'\?"):
        ice.train(TASK, MODEL, seed=3)


def test_what_users_derive_from_is_exported():
    for name in ("Task", "Batch", "Item", "Model", "ParameterSpec", "ModelDims", "Engine", "InputError", "Phase"):
        assert getattr(ice, name).__name__ == name
    assert set(ice.__all__) >= {*ice.HOME, *ice.PACKAGES}
    assert issubclass(ice.tasks.OneAnswerTask, ice.tasks.PlainTask)
    assert issubclass(ice.tasks.PairTask, ice.Task)
    assert all(getattr(ice.tasks, task.__name__) is task for task in ice.tasks.TASKS.values())
    assert all(getattr(ice, model.__name__) is model for model in ice.models.SHIPPED)
    assert issubclass(ice.tasks.LadderTask, ice.Task)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = ice.Nothing


def test_evaluations_take_at_most_their_share_of_the_time(monkeypatch):
    """A step takes 1 s. An item takes half its time in training, as the loop estimates: 6.25 s for all of them."""
    clock, spent = [0.0], [0.0]
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    taken = Trainer.advance

    def advance(self: Trainer, until: int, interrupted: Any) -> None:
        clock[0] += until - self.step
        taken(self, until, interrupted)

    evaluate, shares = loop.evaluate, []

    def slow(population: Any, task: Any, test: Any, *rest: Any) -> Any:
        seconds = len(test) / 32
        clock[0] += seconds
        spent[0] += seconds
        shares.append(spent[0] / clock[0])
        return evaluate(population, task, test, *rest)

    monkeypatch.setattr(Trainer, "advance", advance)
    monkeypatch.setattr(loop, "evaluate", slow)
    bounded = ice.train(TASK, MODEL, steps=100, batch=16)
    measured = {row["step"]: row.get("items", len(TASK.test_set())) for row in bounded.metrics if "accuracy" in row}
    assert measured == {step: 200 if step in (70, 100) else 50 for step in range(10, 101, 10)}
    assert max(shares) <= 0.2
    exact = ice.train(TASK, MODEL, steps=100, batch=16, evaluate_every=10)
    assert [row["step"] for row in exact.metrics if "accuracy" in row] == list(range(10, 101, 10))
    for name, value in bounded.population.trained.items():
        assert torch.equal(value, exact.population.trained[name]), name
    assert Intervals.of(100, None, 10, None).evaluation_share is None


def test_a_notebook_shows_progress_and_nothing_else_does(monkeypatch, capsys):
    shown: list[str] = []
    handle = SimpleNamespace(update=lambda bundle, raw: shown.append(bundle["text/plain"]) if raw else None)
    shell = type("Shell", (type("ZMQInteractiveShell", (), {}),), {})()  # as Colab's
    package, display = ModuleType("IPython"), ModuleType("IPython.display")
    package.get_ipython = lambda: shell  # type: ignore[attr-defined]
    display.display = lambda *_, **__: handle  # type: ignore[attr-defined]
    ice.train(TASK, MODEL, **SHORT)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    began = time.monotonic()
    ice.train(TASK, MODEL, **SHORT)
    assert time.monotonic() - began < 60
    name = "needle, transformer of width 16, embeddings trained"
    assert shown[-2].startswith(f"{name}: step 12 of 12, loss ")
    assert shown[-1].startswith(f"{name}: done in ")
    ice.train(TASK, MODEL, on_progress=lambda _: None, **SHORT)
    assert sum(line.startswith(f"{name}: done") for line in shown) == 1, "a callback of one's own replaces it"


def test_a_notebook_completes_the_public_names():
    assert {"train", "compare", "Transformer", "Task"} <= set(dir(ice))
