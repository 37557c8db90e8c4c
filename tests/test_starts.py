"""Runs that start from another run: what is taken, how seeds pair up, what the folder keeps, and what is refused."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from small_runs import FLAGS, MODEL, SHORT, TASK, Stop, copied, run_json, same_weights, stop_after, train_whole
from test_trust import CODE, as_sent

import icecore as ice
from icecore.cli import main
from icecore.errors import Advice, InputError
from icecore.models import names_of_half
from icecore.store.tensors import load_tensors
from icecore.tasks import ModularAddition
from icecore.training import RunFolder, config_of
from icecore.training.advice import advice_on
from icecore.training.from_run import source_of
from icecore.training.identity import name_of

whole = pytest.fixture(scope="module")(train_whole)
STILL = {**SHORT, "lr": 0.0, "seeds": None}  # a rate of 0 changes nothing, bit for bit
THAW = {"steps": 8, "batch": 16, "lr": 1e-2, "warmup_steps": 2}
OTHER = ModularAddition(modulus=11)
LARGER = dataclasses.replace(TASK, vocabulary=50)
EMBEDDINGS = {"token", "position", "unembed"}
WHOLE = object()  # stands for the run
SHORT_FLAGS = ["--steps", "4", "--batch", "16", "--warmup-steps", "1", "--device", "cpu"]


@pytest.fixture(scope="module")
def thawed(whole, tmp_path_factory):
    return ice.train(TASK, trainable="all", from_run=whole.path, out=tmp_path_factory.mktemp("thawed"), **THAW)


def equal(first, second, names) -> bool:
    return all(torch.equal(first[name], second[name]) for name in names)


def test_a_run_starts_with_the_final_weights_of_another_seed_by_seed(whole):
    start = ice.train(TASK, trainable="all", from_run=whole, **STILL)
    assert start.config.seeds == whole.config.seeds
    for seed in (0, 1):
        assert equal(start.parameters(seed), whole.parameters(seed), whole.config.initial(seed))
        assert equal(start.config.initial(seed), whole.parameters(seed), whole.config.initial(seed))
    assert start.accuracy == whole.accuracy
    assert not equal(start.parameters(0), start.parameters(1), EMBEDDINGS)


def test_a_body_is_taken_alone_for_another_task(thawed):
    moved = ice.train(OTHER, body_from=thawed, **STILL)
    own = config_of(OTHER, MODEL, seeds=2, batch=16)
    body = names_of_half(MODEL, own.dims, "body")
    assert set(own.initial(0)) - set(body) == EMBEDDINGS
    for seed in (0, 1):
        assert equal(moved.parameters(seed), thawed.parameters(seed), body)
        assert equal(moved.parameters(seed), moved.config.initial(seed), EMBEDDINGS)
        # The seed's own embeddings are what the body was trained with.
        differ = [not torch.equal(moved.parameters(seed)[name], own.initial(seed)[name]) for name in EMBEDDINGS]
        assert all(differ)
    assert moved.config.dims == own.dims
    assert moved.config.model == MODEL


def test_embeddings_are_taken_to_another_body(whole):
    moved = ice.train(TASK, MODEL, embeddings_from=whole, shift=10, **STILL)
    assert moved.config.seeds == (10, 11)
    body = names_of_half(MODEL, moved.config.dims, "body")
    own = config_of(TASK, MODEL, seeds=[10, 11])
    for seed in (10, 11):
        assert equal(moved.parameters(seed), whole.parameters(seed - 10), EMBEDDINGS)
        assert equal(moved.parameters(seed), own.initial(seed), body)
    again = ice.train(TASK, embeddings_from=whole, **STILL, shift=10)
    assert again.config == moved.config, "the model is that run's"
    wider = dataclasses.replace(MODEL, heads=2)
    assert equal(ice.train(TASK, wider, embeddings_from=whole, **STILL).parameters(1), whole.parameters(1), EMBEDDINGS)


def test_rescaled_embeddings_have_the_norms_of_initial_ones(whole):
    start = ice.train(TASK, trainable="all", from_run=whole, rescale="embeddings", **STILL)
    grown = []
    for name in EMBEDDINGS:
        ours, theirs = start.parameters(1)[name], whole.parameters(1)[name]
        assert float(ours.norm()) == pytest.approx(float(whole.config.initial(1)[name].norm()), rel=1e-5)
        assert float(torch.cosine_similarity(ours.flatten(), theirs.flatten(), dim=0)) == pytest.approx(1)
        grown.append(float(theirs.norm() / ours.norm()))
    assert max(grown) > 1.001
    cooler = ice.train(TASK, trainable="all", from_run=whole, rescale="unembed", **STILL)
    assert equal(cooler.parameters(1), whole.parameters(1), {"token", "position"})
    assert cooler.accuracy == whole.accuracy, "a factor of all logits changes no answer"
    assert cooler.result["loss"] != whole.result["loss"]


def test_a_folder_is_loaded_without_the_run_that_it_starts_from(whole, tmp_path):
    source = copied(whole, tmp_path / "source")
    made = ice.train(TASK, trainable="all", from_run=source, out=tmp_path / "out", **THAW)
    shutil.rmtree(source)
    assert made.path is not None
    again = ice.load(made.path, "cpu")
    assert again.config == made.config
    for seed in (0, 1):
        assert equal(again.parameters(seed), made.parameters(seed), made.config.initial(seed))
        assert equal(again.config.initial(seed), whole.parameters(seed), made.config.initial(seed))


def test_a_body_is_stored_once(whole, thawed, tmp_path):
    """A random body comes from its seed; a trained one lies where it is needed: among the weights, or in the start."""

    def names(run):
        return {file: set(load_tensors(run.path / f"{file}.safetensors")[0]) for file in ("start", "weights")}

    everything = set(whole.config.initial(0))
    assert names(thawed) == {"start": EMBEDDINGS, "weights": everything}
    moved = ice.train(OTHER, body_from=thawed.path, out=tmp_path, **THAW)
    body = everything - EMBEDDINGS
    assert names(moved) == {"start": body, "weights": EMBEDDINGS}
    assert moved.path is not None
    again = ice.load(moved.path, "cpu")
    assert equal(again.parameters(1), moved.parameters(1), everything)
    assert equal(again.parameters(1), thawed.parameters(1), body)


def test_extracted_seeds_keep_their_start(thawed, tmp_path):
    kept = RunFolder(thawed.path).extract((1,), tmp_path)
    run = ice.load(kept.path, "cpu")
    assert equal(run.config.initial(1), thawed.config.initial(1), EMBEDDINGS)
    assert equal(run.parameters(1), thawed.parameters(1), EMBEDDINGS)


def test_the_config_says_where_a_run_comes_from(whole, thawed):
    entry = json.loads((thawed.path / "config.json").read_text())["start"]
    assert entry["setting"] == name_of(
        {k: v for k, v in whole.config.as_json().items() if k not in ("seeds", "precision")}
    )
    assert (entry["take"], entry["where"]["run"], entry["where"]["task"]) == ("all", whole.path.name, "needle")
    assert [len(digest) for digest in entry["where"]["sha256"]] == [64, 64]
    assert "start" not in whole.config.as_json()


def test_the_id_is_of_the_setting_and_not_of_the_population(whole, thawed, tmp_path):
    """A seed has the same record in whatever population it and its source trained."""
    alone = RunFolder(whole.path).extract((1,), tmp_path)
    from_alone = ice.train(TASK, trainable="all", from_run=alone.path, **THAW)
    assert from_alone.config.run_id == dataclasses.replace(thawed.config, seeds=(1,)).run_id
    others = [
        ice.train(TASK, trainable="all", **{**THAW, "steps": 1, **more}).config
        for more in (
            {"from_run": whole, "seeds": 1},
            {"from_run": whole, "rescale": "unembed", "seeds": 1},
            {"model": MODEL},
        )
    ]
    assert len({config.run_id for config in others}) == 3


@pytest.mark.parametrize("died_at", [2, 5, 8])
def test_a_resumed_run_ends_with_the_same_bits(whole, thawed, tmp_path, died_at):
    settings = {"out": tmp_path, "log_every": 1, "checkpoint_every": 2, **THAW}
    with pytest.raises(Stop):
        ice.train(TASK, trainable="all", from_run=whole.path, on_progress=stop_after(died_at), **settings)
    again = ice.train(TASK, trainable="all", from_run=whole.path, resume=True, **settings)
    assert again.path is not None
    assert same_weights(thawed.path, again.path)


THREE = [
    {"trainable": "embeddings", "steps": 3},
    {"trainable": "all", "steps": 3},
    {"trainable": "unembed", "steps": 2},
]


@pytest.fixture(scope="module")
def of_three_phases(whole, tmp_path_factory):
    settings = {**THAW, "steps": 1}
    return ice.train(TASK, from_run=whole.path, out=tmp_path_factory.mktemp("three"), phases=THREE, **settings)


@pytest.mark.parametrize("died_at", [1, 3, 4, 6, 7, 8])
def test_a_run_with_a_start_resumes_in_every_phase(whole, of_three_phases, tmp_path, died_at):
    settings = {**THAW, "steps": 1, "phases": THREE, "out": tmp_path, "log_every": 1, "checkpoint_every": 1}
    with pytest.raises(Stop):
        ice.train(TASK, from_run=whole.path, on_progress=stop_after(died_at), **settings)
    again = ice.train(TASK, from_run=whole.path, resume=True, **settings)
    assert again.path is not None
    assert same_weights(of_three_phases.path, again.path)
    assert equal(again.parameters(1), of_three_phases.parameters(1), again.config.initial(1))


def test_a_run_that_started_from_other_weights_is_not_continued(whole, tmp_path):
    settings = {"out": tmp_path / "out", **THAW}
    with pytest.raises(Stop):
        ice.train(TASK, trainable="all", from_run=whole.path, on_progress=stop_after(2), log_every=1, **settings)
    population = whole.population.copy()
    population.load({"token": population.trained["token"] + 0.01})
    other = dataclasses.replace(whole, population=population)
    with pytest.raises(InputError, match="started from other weights"):
        ice.train(TASK, trainable="all", from_run=other, resume=True, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": LARGER}, "token of .* has the shape 40 x 16, .* 50 x 16: give the task"),
        ({"model": dataclasses.replace(MODEL, heads=2)}, "has heads 4, not 2: drop --heads"),
        ({"model": dataclasses.replace(MODEL, width=32)}, "has width 16, not 32: drop --width"),
        ({"model": ice.LSTM(width=16)}, "has the model transformer, not lstm"),
        ({"positions": 50}, r"has the shape 100 x 16, this run needs 50 x 16: add --positions 100"),
        ({"seeds": 3}, r"has the seeds \[0, 1\], so \[2\] have no start: drop --seeds"),
        ({"seeds": [5, 6]}, r"so \[5, 6\] have no start: add --shift 5"),
        ({"body_from": "elsewhere"}, "choose one of --from, --body-from"),
        ({"shift": "one"}, "shift must be a whole number"),
        ({"from_run": None, "rescale": "unembed"}, "--rescale needs a run to start from"),
        ({"from_run": None, "body_from": WHOLE, "rescale": "unembed"}, "takes no embeddings, so there"),
        ({"rescale": "mlp"}, "--rescale acts on embeddings that are taken, such as unembed, not on mlp"),
        ({"rescale": "many"}, "unknown role of transformer 'many'"),
        ({"from_run": "nowhere"}, "nowhere is not a run"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(whole, settings, message):
    task, model = settings.get("task", TASK), settings.get("model")
    more = {"from_run": whole, **{key: value for key, value in settings.items() if key not in ("task", "model")}}
    more = {key: whole if value is WHOLE else value for key, value in more.items()}
    with pytest.raises(InputError, match=message):
        ice.train(task, model, "all", **more, **THAW)


def test_embeddings_must_fit_the_width(whole):
    with pytest.raises(InputError, match="40 x 16, this run needs 40 x 32: add --width 16"):
        ice.train(TASK, dataclasses.replace(MODEL, width=32), embeddings_from=whole, **THAW)
    with pytest.raises(InputError, match=r"this model has unembed_bias, and .* has none: start from"):
        ice.train(TASK, ice.LSTM(width=16), embeddings_from=whole, **THAW)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"batch": 16, "lr": 0.5},
            r"12 steps of batch 16 at rate 0\.01; this run, by the preset, 10,000 steps of batch 16 at rate 0\.5",
        ),
        ({"task": dataclasses.replace(TASK, values=10), **THAW}, "has values 20, not 10: its embeddings may stand for"),
        ({"task": ModularAddition(modulus=40), "positions": 100, **THAW}, "was trained on needle, so its embeddings"),
        ({"phases": [{"steps": 3}, {"steps": 5, "lr": 0.0}], **THAW}, "phase 2 has rate 0, so nothing trains in its 5"),
        ({"from_run": None, "embeddings_from": WHOLE, **THAW}, "seed 0 has the body of .*, around which"),
    ],
)  # fmt: skip
def test_what_may_be_a_mistake_is_said(whole, settings, message):
    more = {"task": TASK, "from_run": whole, **settings}
    source = {key: whole if value is WHOLE else value for key, value in more.items()}
    task = source.pop("task")
    starts = {key: source.pop(key, None) for key in ("from_run", "body_from", "embeddings_from")}
    made = source_of(**starts)
    config = config_of(task, MODEL, seeds=2, source=made, **source)
    (found,) = advice_on(config, made, [*source, *(["steps"] if "phases" in source else [])])
    assert re.search(message, found)


def test_advice_is_a_warning_in_python_and_a_line_on_the_command_line(whole, tmp_path, capsys):
    with pytest.warns(Advice, match="has the body of"):
        ice.train(TASK, embeddings_from=whole, out=tmp_path, **{**STILL, "steps": 2})
    flags = ["--embeddings-from", str(whole.path), "--lr", "0", "--batch", "16", "--steps", "2", "--warmup-steps", "1"]
    assert main(["train", "needle", *flags, "--out", str(tmp_path / "other"), "--device", "cpu"]) == 0
    assert capsys.readouterr().err.count("warning: seed 0 has the body of") == 1
    assert list(advice_on(whole.config, None, [])) == [], "a run from seeds"
    for more in ({"body_from": whole}, {"from_run": whole}):
        source = source_of(**more)
        config = config_of(TASK, MODEL, seeds=2, source=source, **THAW)
        assert list(advice_on(config, source, THAW)) == []


def test_an_unfinished_run_is_no_start(tmp_path):
    with pytest.raises(Stop):
        ice.train(TASK, MODEL, out=tmp_path, on_progress=stop_after(1), log_every=1, **SHORT)
    (folder,) = (tmp_path / "needle").iterdir()
    with pytest.raises(InputError, match="is unfinished; finish it with"):
        ice.train(TASK, trainable="all", from_run=folder, **THAW)


@pytest.mark.parametrize("damage", ["missing", "shape", "name", "digest", "entry"])
def test_a_damaged_start_is_refused(thawed, tmp_path, damage):
    run = copied(thawed, tmp_path)
    config, file = json.loads((run / "config.json").read_text()), run / "start.safetensors"
    values, _ = load_tensors(file)
    if damage == "missing":
        file.unlink()
    elif damage == "digest":
        config["start"]["where"]["sha256"][0] = "0" * 64
    elif damage == "entry":
        config["start"]["where"]["sha256"].pop()
    else:
        from icecore.store.tensors import save_tensors

        values |= {"token": values["token"][:, :3]} if damage == "shape" else {"elsewhere": values["token"]}
        save_tensors(file, values, {})
    (run / "config.json").write_text(json.dumps(config))
    words = {
        "missing": "there is no file",
        "shape": "does not fit config.json: token",
        "name": "does not fit config.json: elsewhere",
        "digest": "seed 0 does not start as it did",
        "entry": "its start is damaged",
    }
    with pytest.raises(InputError, match=words[damage]):
        ice.load(run, "cpu").config.initial(0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shift": 10**30}, "its start is damaged"),
        ({"shift": 1}, "its start is damaged"),
        ({"precision": "fp7"}, "its start is damaged"),
        ({"rescaled": "unembeds"}, "did you mean 'unembed'"),
    ],
    ids=str,
)
def test_a_start_that_no_training_writes_is_refused(thawed, tmp_path, changes, words):
    run = copied(thawed, tmp_path)
    config = json.loads((run / "config.json").read_text())
    config["start"] |= changes
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=words):
        ice.load(run.rename(run.with_name(name_of(config))), "cpu")


def test_starts_on_the_command_line(whole, tmp_path, capsys):
    flags = [*SHORT_FLAGS, "--out", tmp_path, "--json"]
    found = run_json(capsys, "train", "needle", "--from", whole.path, "--trainable", "all", *flags)
    assert found["seeds"] == [0, 1]
    assert ice.load(found["run"], "cpu").config.task == TASK, "the task's settings are the run's"
    assert main(["show", found["run"]]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"start: all parameters of needle/{whole.path.name} (setting " in shown
    moved = run_json(
        capsys, "train", "modular-addition", "--modulus", "11", "--body-from", found["run"], "--seeds", "1", *flags
    )
    assert moved["seeds"] == [0]
    other = ["--seeds", "7,8", "--shift", "7", "--heads", "2"]
    again = run_json(capsys, "train", "needle", "--embeddings-from", whole.path, *other, *flags)
    assert again["seeds"] == [7, 8]
    assert ice.load(again["run"], "cpu").config.model == dataclasses.replace(MODEL, heads=2), "the rest is the run's"
    for more, message in (
        (["--from", str(whole.path), "--width", "32"], f"{whole.path} has width 16, not 32: drop --width"),
        (["--from", str(whole.path), "--model", "lstm"], "has model transformer, not lstm: drop --model"),
        (["--from", str(whole.path), "--vocabulary", "50"], "take its body alone, with --body-from"),
        (["--from", str(whole.path), "--body-from", str(whole.path)], "choose one of"),
        (["--shift", "3"], "--shift needs a run to start from"),
        (
            ["--from", str(whole.path.parent)],
            f"{whole.path.parent} is not a run: it has no config.json; its runs are {whole.path}",
        ),
        (["--from", str(whole.path / "config.json")], f"is not a run but a file: give its folder, {whole.path}"),
    ):
        assert main(["train", "needle", *SHORT_FLAGS, "--out", str(tmp_path), *more]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("kind", CODE)
def test_code_of_that_run_is_executed_only_with_trust(whole, tmp_path, monkeypatch, capsys, kind):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    sent = as_sent(whole, tmp_path, kind)
    start = [*FLAGS[:8], *SHORT_FLAGS, "--out", "out", "--from", str(sent), "--trainable", "all"]
    assert main(["train", "needle", *start]) == 2
    assert "is Python code that came with the run" in capsys.readouterr().err
    with pytest.raises(InputError, match="in Python: trust=True"):
        ice.train(TASK, trainable="all", from_run=sent, **THAW)
    assert not Path("EXECUTED").exists()
    assert not Path("out").exists()
    assert main(["train", "needle", *start, "--trust"]) == 0
    assert Path("EXECUTED").exists()
