"""Runs of several phases: what trains in each, resumed to the same bits in every one, and probes on the way."""

import json
import math
from typing import Any, cast

import pytest
import torch
from looking import cells_of
from small_runs import FLAGS, MODEL, TASK, Stop, run_json, same_weights, stop_after

import icecore as ice
from icecore.cli import main
from icecore.errors import Advice, InputError
from icecore.training import Phase, RunConfig, RunFolder, config_of
from icecore.training.make_config import parse_phases

COMMON = {"batch": 16, "lr": 1e-2, "warmup_steps": 2, "seeds": 2}
PHASES = [{"trainable": "embeddings", "steps": 6}, {"trainable": "attention", "steps": 4, "lr": 1e-3}]
EMBEDDINGS = {"token", "position", "unembed"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return ice.train(TASK, MODEL, out=tmp_path_factory.mktemp("whole"), phases=PHASES, **COMMON)


def test_each_phase_trains_its_own_parts(whole):
    first = ice.train(TASK, MODEL, **COMMON, steps=6)
    for index, seed in enumerate((0, 1)):
        before, middle, end = (
            whole.config.initial(seed),
            first.population.parameters(index),
            whole.population.parameters(index),
        )
        for name in before:
            moved = not torch.equal(before[name], middle[name]), not torch.equal(middle[name], end[name])
            is_attention = whole.population.specs[name].role.startswith("attention")
            if name.endswith(".k.bias"):  # it changes no attention, so only its rounding moves it
                continue
            assert moved == (name in EMBEDDINGS, is_attention), name
    assert whole.result["trained_parameters"] == sum(
        value[0].numel()
        for name, value in {**whole.population.trained, **whole.population.frozen}.items()
        if name in whole.config.trained_names
    )


def test_phases_count_steps_through_and_have_rates_of_their_own(whole):
    config = whole.config
    assert config.steps == whole.result["steps"] == 10
    assert [row["step"] for row in whole.metrics] == list(range(1, 11))
    assert [phase.training.lr for phase in config.phases] == [1e-2, 1e-3]
    assert (config.trainable, config.training.steps) == ("attention", 4), "the last one"


def test_a_run_of_phases_is_loaded_as_it_was(whole):
    again = ice.load(whole.path, device="cpu")
    assert again.config == whole.config
    for index in range(2):
        for name, value in whole.population.parameters(index).items():
            assert torch.equal(value, again.population.parameters(index)[name]), name
    stored = json.loads((whole.path / "config.json").read_text())
    assert [phase["trainable"] for phase in stored["phases"]] == ["embeddings", "attention"]
    assert "trainable" not in stored


@pytest.mark.parametrize("died_at", [3, 6, 7, 9, 10])
def test_a_run_that_dies_in_any_phase_resumes_to_the_same_bits(whole, tmp_path, died_at):
    settings = {"out": tmp_path, "phases": PHASES, "log_every": 1, "checkpoint_every": 3, **COMMON}
    with pytest.raises(Stop):
        ice.train(TASK, MODEL, on_progress=stop_after(died_at), **settings)
    runs = ice.train(TASK, MODEL, resume=True, **settings)
    assert runs.path is not None
    assert same_weights(whole.path, runs.path)
    assert runs.accuracy == whole.accuracy


def test_one_phase_is_the_run_without_phases():
    plain = config_of(TASK, MODEL, "all", 2, steps=5, batch=8)
    phased = config_of(TASK, MODEL, seeds=2, batch=8, phases=[{"trainable": "all", "steps": 5}])
    assert plain == phased
    assert plain.run_id == phased.run_id
    assert "phases" not in plain.as_json()
    assert "start" not in plain.as_json()


def test_phases_must_train_something_with_one_batch():
    with pytest.raises(InputError, match="all phases must share one batch size, got 8, 16"):
        config_of(TASK, MODEL, phases=[{"batch": 8}, {"batch": 16}])
    with pytest.raises(InputError, match="unknown role of transformer 'body'"):
        config_of(TASK, MODEL, phases=[{"trainable": "embeddings"}, {"trainable": "body"}])
    with pytest.raises(InputError, match="unknown training setting 'step'"):
        config_of(TASK, MODEL, phases=[{"step": 8}])
    config = config_of(TASK, MODEL)
    with pytest.raises(InputError, match="a run needs at least one phase"):
        RunConfig(TASK, MODEL, config.dims, phases=())
    assert config.phases == (Phase("embeddings", config.training),)


def test_phases_on_the_command_line(whole, tmp_path, capsys):
    flags = [*FLAGS, "--warmup-steps", "2", "--out", tmp_path, "--json"]
    found = run_json(capsys, "train", "needle", *flags, "--phases", "embeddings:6,attention:4:1e-3")
    assert found["run_id"] == whole.config.run_id
    assert main(["show", found["run"]]) == 0
    assert capsys.readouterr().out.count("trained: ") == 2
    for trainable in ("embeddings", "all"):
        run_json(capsys, "train", "needle", *flags, "--trainable", trainable, "--steps", "10")
    assert main(["show", str(tmp_path)]) == 0
    cells = cells_of(capsys.readouterr().out)
    (second,) = [row for row in cells if row[2] == "then attention"]
    assert cells[cells.index(second) - 1][2:] == ["embeddings", "0,1", cells[cells.index(second) - 1][4], "steps 6"]
    assert second[0] == ""
    assert second[5].startswith("steps 4, batch 16, lr 0.001")
    for more, message in (
        (["--steps", "3"], "drop --steps"),
        (["--trainable", "all"], "drop --trainable"),
    ):
        assert main([str(flag) for flag in ("train", "needle", *flags, "--phases", "all:3", *more)]) == 2
        assert message in capsys.readouterr().err


def test_phases_are_read_with_roles_and_rates():
    assert parse_phases("q,k:5,all:7:0.1") == [
        {"trainable": "q,k", "steps": 5},
        {"trainable": "all", "steps": 7, "lr": 0.1},
    ]
    text = config_of(TASK, MODEL, phases="embeddings:6,attention:4:1e-3", **{**COMMON, "lr": 1e-2})
    assert text == config_of(TASK, MODEL, phases=PHASES, **COMMON)
    for no_phases in ({}, [3], ["all:5"]):
        with pytest.raises(InputError, match="phases must be 'embeddings:500,all:500' or a list of dicts"):
            config_of(TASK, MODEL, phases=cast(Any, no_phases))
    for wrong in ("", "all", "all:5,norm", "all:many", "all:5:fast", "all:5:1:2"):
        with pytest.raises(InputError, match="--phases"):
            parse_phases(wrong)


def norms(_model, parameters, batch):
    parameters["token"].zero_()  # what a probe changes is its own
    return {"unembed": float(parameters["unembed"].norm()), "items": len(batch)}


def test_probes_are_recorded_before_training_and_with_every_evaluation(tmp_path):
    settings = {**COMMON, "steps": 6, "evaluate_every": 3, "out": tmp_path}
    runs = ice.train(TASK, MODEL, probes=[norms], **settings)
    rows = {row["step"]: row["probes"] for row in runs.metrics if "probes" in row}
    assert list(rows) == [0, 3, 6]
    for index in range(2):
        assert rows[0]["norms.unembed"][index] == pytest.approx(float(runs.config.initial(index)["unembed"].norm()))
        last = runs.population.parameters(index)["unembed"]
        assert rows[6]["norms.unembed"][index] == pytest.approx(float(last.norm()))
    assert rows[3]["norms.items"] == [200.0, 200.0]
    without = ice.train(TASK, MODEL, **{**settings, "out": None})
    for name, value in without.population.trained.items():
        assert torch.equal(value, runs.population.trained[name]), name
    assert runs.path is not None
    assert list(RunFolder(runs.path).metrics()) == runs.metrics
    with pytest.warns(Advice, match="is complete, so its probes are not run"):
        ice.train(TASK, MODEL, probes=[norms], **settings)


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        (lambda *_: math.nan, "which is not finite"),
        (lambda *_: "many", "must give a number"),
        (lambda *_: 1 / 0, "the probe <lambda> failed"),
        (3, "a probe must be a function"),
    ],
)
def test_a_broken_probe_is_seen_before_the_first_step(probe, message):
    def fail(_progress):
        raise AssertionError("nothing was to train")

    with pytest.raises(InputError, match=message):
        ice.train(TASK, MODEL, probes=[probe], steps=4, on_progress=fail, log_every=1, **COMMON)


def test_probes_on_the_command_line(tmp_path, capsys):
    (tmp_path / "mine.py").write_text("def rows(model, parameters, batch):\n    return len(parameters['token'])\n")
    flags = [*FLAGS, "--steps", "4", "--out", tmp_path / "runs", "--probe", f"{tmp_path}/mine.py:rows", "--json"]
    found = run_json(capsys, "train", "needle", *flags)
    rows = list(RunFolder(found["run"]).metrics())
    assert rows[0] == {"step": 0, "probes": {"rows": [40.0, 40.0]}}
    assert rows[-1]["probes"] == {"rows": [40.0, 40.0]}
    assert main([str(word) for word in ["train", "needle", *flags[:-1]]]) == 0
    out = capsys.readouterr().out
    assert ["probe", "seed", "step 0", "step 4"] in cells_of(out)
    assert ["rows", "1", "40", "40"] in cells_of(out)
