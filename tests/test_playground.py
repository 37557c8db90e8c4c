"""The playground's data: a body from its seed, snapshots on the way, and errors."""

import base64
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import copied, train_whole

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.models.base import ModelDims, ParameterSpec
from icecore.models.initializers import Constant, Orthogonal
from icecore.page.along import equally_far
from icecore.page.playground import PlaygroundOptions, is_playable, padding_of, playground_of, require_playable
from icecore.page.regenerate import drawn_again, normal_values
from icecore.page.report import Options, report_data
from icecore.page.sources import sources_of
from icecore.seeding import derive_seed, make_generator
from icecore.sweeps.demo import PLAYED
from icecore.training import Population
from icecore.training.evaluation import evaluate


def nothing(*_):
    pass


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train_whole(tmp_path_factory)


@pytest.mark.parametrize("shape", [(16,), (17,), (5, 7), (64, 25), (31, 33)])
def test_normal_values_are_torchs(shape):
    for seed in (0, 3, 12345):
        drawn = torch.empty(shape).normal_(0, 1, generator=make_generator(seed, "init", "a name"))
        again = normal_values(drawn.numel(), derive_seed(seed, "init", "a name"))
        np.testing.assert_allclose(again, drawn.flatten().double().numpy(), atol=1e-5)


def test_a_parameter_is_drawn_again_only_if_that_gives_its_value():
    model, dims = ice.Transformer(width=16, init="matched"), ModelDims(5, 4)
    specs = model.specs(dims)
    initial = ice.models.initialize(model, dims, 7)
    for name, spec in specs.items():
        how = drawn_again(spec, name, 7, initial[name])
        assert how is not None, name
        assert set(how) == {"constant" if isinstance(spec.initializer, Constant) else "normal"}
    name, spec = "block0.q.weight", specs["block0.q.weight"]
    assert drawn_again(spec, name, 8, initial[name]) is None
    changed = initial[name].clone()
    changed[3, 5] += 0.01
    assert drawn_again(spec, name, 7, changed) is None
    assert drawn_again(ParameterSpec((16, 16), "token", Orthogonal(0.02)), name, 7, initial[name]) is None
    assert drawn_again(specs["block0.q.bias"], "block0.q.bias", 7, initial["block0.q.bias"] + 1) is None


def test_snapshots_are_equally_far_apart():
    assert equally_far([1, 1, 1, 1], 2) == [0, 2, 4]
    assert equally_far([8, 1, 1, 1, 1], 2) == [0, 1, 5]
    assert equally_far([1, 2], 5) == [0, 1, 2]
    assert equally_far([0.0, 0.0, 0.0], 2) == [0, 3]


def test_the_way_ends_where_the_run_ended(whole):
    data = playground_of(whole.path, PlaygroundOptions(snapshots=3), False, nothing)
    watched, other = data["sets"]
    assert [each["seed"] for each in data["sets"]] == list(whole.config.seeds)
    assert watched["snapshots"][0]["step"] == 0
    assert watched["snapshots"][-1]["step"] == whole.config.steps
    assert watched["snapshots"][-1]["accuracy"] == pytest.approx(whole.accuracy[0], abs=0.01)
    at_start = Population(
        whole.config.model, whole.config.dims, (0, 1), "embeddings", torch.device("cpu"), initial=whole.config.initial
    )
    before = evaluate(at_start, whole.config.task, whole.config.task.test_set())["accuracy"]
    assert [each["snapshots"][0]["accuracy"] for each in data["sets"]] == pytest.approx(before)
    assert all(isinstance(one["accuracy"], float) for each in data["sets"] for one in each["snapshots"])
    assert [each["step"] for each in other["snapshots"]] == [0, whole.config.steps]
    assert data["bodies"] == {}
    halves = np.frombuffer(base64.b64decode(watched["weights"]), dtype=np.float16)
    rows = {each["name"]: each["rows"] for each in data["parameters"]}
    sizes = [rows[name] * whole.config.model.width for name in watched["trained"]]
    assert rows["position"] == whole.config.task.max_length < whole.config.dims.n_positions
    assert halves.size == len(watched["snapshots"]) * sum(sizes)
    first = whole.config.initial(0)[watched["trained"][0]].half().flatten()
    assert torch.equal(torch.from_numpy(halves[: sizes[0]].copy()), first)
    last = torch.from_numpy(halves[-sum(sizes) :][: sizes[0]].astype(np.float32))
    torch.testing.assert_close(last, whole.parameters(0)[watched["trained"][0]].flatten(), atol=2e-3, rtol=2e-3)


def test_snapshots_that_a_run_saved_are_shown_without_training(tmp_path):
    task = ice.tasks.Needle(max_pairs=2, values=5, vocabulary=12, test_size=10)
    model = ice.Transformer(width=16, init="matched")
    run = ice.train(
        task,
        model,
        seeds=2,
        steps=6,
        batch=4,
        warmup_steps=1,
        snapshots=3,
        evaluate_every=6,
        out=tmp_path,
        device="cpu",
    )
    assert run.path is not None
    for count, steps in ((5, [0, 1, 3, 6]), (0, [0, 6])):
        data = playground_of(run.path, PlaygroundOptions(count, seed=1), False, lambda _: pytest.fail("it trains"))
        assert [each["step"] for each in data["sets"][0]["snapshots"]] == steps
    assert data["made"]["device"] == run.result["device"]


def test_a_run_with_no_snapshots_but_between_its_phases_is_trained_again(tmp_path):
    task, phases = ice.tasks.Needle(max_pairs=2, values=5, vocabulary=12, test_size=10), [{"steps": 4}, {"steps": 2}]
    settings = {"batch": 4, "warmup_steps": 1, "phases": phases, "out": tmp_path, "device": "cpu"}
    run = ice.train(task, ice.Transformer(width=16, init="matched"), **settings)
    assert run.path is not None
    told = []
    data = playground_of(run.path, PlaygroundOptions(5), False, told.append)
    assert told, "it trains"
    assert len(data["sets"][0]["snapshots"]) > 3


def test_the_small_runs_are_trained_once_and_written_as_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    few = {"trainable": "embeddings", "seeds": 2, "batch": 16, "lr": 2e-2, "steps": 2, "warmup_steps": 1}
    monkeypatch.setattr("icecore.sweeps.demo.played_runs", lambda: dict.fromkeys(PLAYED[:2], few))
    for _ in range(2):
        assert main(["playground", "--out", "results/playground", "--items", "3", "--json"]) == 0
        said = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert [Path(file).name for file in said["files"]] == ["needle.json", "parentheses.json"]
        assert [one["snapshots"] for one in said["runs"]] == [3, 3]
    assert len(list(Path("runs/playground").glob("*/*/result.json"))) == 2


def test_a_body_that_cannot_be_drawn_is_stored(whole, monkeypatch):
    monkeypatch.setattr("icecore.page.playground.drawn_again", lambda *_: None)
    data = playground_of(whole.path, PlaygroundOptions(snapshots=0), False, nothing)
    assert set(data["bodies"]) == {"0", "1"}
    frozen = [each for each in data["parameters"] if each["from"] == "body"]
    size = sum(int(np.prod(each["shape"])) for each in frozen)
    assert len(base64.b64decode(data["bodies"]["0"])) == 2 * size


def test_items_and_words_are_the_tasks(whole):
    data = playground_of(whole.path, PlaygroundOptions(snapshots=0, items=7), False, nothing)
    task, items = whole.config.task, whole.config.task.test_items()
    assert [(tuple(each["tokens"]), each["answer"]) for each in data["task"]["items"]] == [
        (item.prompt, item.answer[0]) for item in items[:7]
    ]
    assert data["task"]["words"] == [task.words([token])[0] for token in range(task.vocab_size)]
    assert ice.tasks.Parentheses().answer_words([0, 1, 2, 3]) == [" ", "no", "yes", "?"]
    assert set(data["task"]["ends"]) == {item.prompt[-1] for item in items}
    assert data["task"]["padding"] == [0]
    assert "test items in the training data: no" in data["task"]["settings"]
    assert padding_of(ice.tasks.ModularAddition(modulus=7)) == []


def test_what_a_page_cannot_compute_is_refused(whole):
    assert is_playable(whole.config)
    for model, words in ((ice.LSTM(width=8), "this is lstm"), (ice.Transformer(width=1024), "MiB")):
        config = dataclasses.replace(whole.config, model=model)
        with pytest.raises(InputError, match=words):
            require_playable(config)
        assert not is_playable(config)
    random = dataclasses.replace(whole.config, model=ice.Transformer(width=16, attention="random"))
    assert not is_playable(random)


def test_a_playground_from_the_command_line_is_part_of_a_report(whole, tmp_path, capsys, monkeypatch):
    run = copied(whole, tmp_path)
    results = tmp_path / "results"
    (results / "playground").mkdir(parents=True)
    out = results / "playground" / "small.json"
    assert main(["playground", str(run), "--snapshots", "0", "--out", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["bytes"] == out.stat().st_size
    assert [one["snapshots"] for one in said["runs"]] == [2]
    stored = json.loads(out.read_text())
    damaged = [{}, [], stored | {"sets": []}, stored | {"version": 1}, stored | {"run": 3}]
    damaged.append(stored | {"sets": [stored["sets"][0] | {"weights": "AAAA"}]})
    damaged.append(stored | {"task": stored["task"] | {"items": [{"tokens": [1, 99], "answer": 0}]}})
    for number, other in enumerate(damaged):
        (results / "playground" / f"other{number}.json").write_text(json.dumps(other))
    (results / "runs.jsonl").write_text("")
    warned: list[str] = []
    data = report_data(sources_of([results]), Options(), warned.append, nothing)
    assert [one["run"] for one in data["playgrounds"]] == [run.name]
    assert len(warned) == len(damaged)
    assert all(
        f"other{number}.json is not a file of icecore playground" in warned[number] for number in range(len(damaged))
    )
    monkeypatch.setattr("icecore.page.report.measured_part", lambda *_: {"analyses": []})
    data = report_data(sources_of([run]), Options(), nothing, nothing)
    assert [len(each["snapshots"]) for each in data["playgrounds"][0]["sets"]] == [2, 2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere is not a run"),
        (["RUN", "--out", "page.txt"], "--out must end in .html or .json"),
        (["RUN", "RUN/x", "--out", "one.json"], "one.json holds one run"),
        (["--out", "one.json"], "one.json holds one run"),
        (["RUN", "--out", "RUN/page.html"], "holds only the run"),
        (["RUN", "--seed", "9"], "the run has the seeds [0, 1], not 9"),
    ],
)
def test_errors_are_one_line(arguments, words, whole, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = copied(whole, tmp_path)
    assert main(["playground", *(each.replace("RUN", str(run)) for each in arguments), "--snapshots", "0"]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "playground.html").exists()
