"""Finished runs: evaluate, show, export, extract, and list errors."""

import dataclasses
import json
import statistics

import pytest
import torch
from small_runs import FLAGS, MODEL, TASK, copied, run_json, train_whole

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.models import initialize
from icecore.store.tensors import load_tensors, save_tensors
from icecore.tasks import Needle
from icecore.training import RunFolder, evaluate

whole = pytest.fixture(scope="module")(train_whole)


def test_evaluate_show_and_export(whole, tmp_path, capsys):
    evaluated = run_json(capsys, "evaluate", whole.path, "--json")
    assert evaluated["accuracy"] == whole.result["accuracy"]
    shown = run_json(capsys, "show", whole.path, "--json")
    assert shown["result"] == whole.result
    assert shown["config"]["seeds"] == [0, 1]
    assert main(["show", str(whole.path)]) == 0
    assert "parameters: 2,880 trained, 6,592 frozen" in capsys.readouterr().out
    assert main(["export", str(whole.path), str(tmp_path / "hf"), "--seed", "1"]) == 0
    from transformers import AutoModelForCausalLM

    network = AutoModelForCausalLM.from_pretrained(tmp_path / "hf")
    batch = TASK.test_set()
    ours = MODEL.logits(whole.population.parameters(1), batch.tokens)
    with torch.no_grad():
        assert torch.allclose(network(batch.tokens).logits, ours, atol=1e-5)
    capsys.readouterr()
    assert main(["export", str(whole.path), str(tmp_path / "hf")]) == 2
    assert "is not empty" in capsys.readouterr().err


def test_a_run_is_measured_on_other_items(tmp_path, capsys):
    flags = ["--max-pairs", "2", "--values", "20", "--vocabulary", "40", "--test-size", "50", "--width", "16"]
    short = ["--steps", "3", "--batch", "8", "--warmup-steps", "1", "--device", "cpu", "--positions", "7"]
    run = run_json(capsys, "train", "needle", *flags, *short, "--out", tmp_path, "--json")["run"]
    longer = run_json(capsys, "evaluate", run, "--max-pairs", "3", "--test-size", "80", "--json")
    task = Needle(max_pairs=3, values=20, vocabulary=40, test_size=80)
    assert longer["baselines"] == task.baselines()
    assert longer["settings"] == {"max_pairs": "3", "test_size": "80"}
    runs = ice.load(run, "cpu")
    assert longer["accuracy"] == evaluate(runs.population, task, task.test_set())["accuracy"]
    assert main(["evaluate", run, "--max-pairs", "3"]) == 0
    assert capsys.readouterr().out.startswith("on max_pairs 3\n")
    for setting, message in (
        (["--max-pairs", "4"], "7 positions, and with these settings items have up to 9 tokens: train one with --pos"),
        (["--vocabulary", "41"], "the run knows 40 tokens, and with these settings needle has 41"),
        (["--pairs", "4"], "unknown flag of evaluate needle 'pairs'"),
    ):
        assert main(["evaluate", run, *setting]) == 2
        assert message in capsys.readouterr().err
    too_long = Needle(max_pairs=9, values=20, vocabulary=40, test_size=5)
    with pytest.raises(InputError, match="the model has 7 positions, but items have 19 tokens"):
        evaluate(runs.population, too_long, too_long.test_set())
    other = Needle(max_pairs=2, values=60, vocabulary=90, test_size=50)
    with pytest.raises(InputError, match="the model knows tokens up to 39, not "):
        evaluate(runs.population, other, other.test_set())


def test_a_folder_of_runs_is_listed(whole, tmp_path, capsys):
    copied(whole, tmp_path / "out")
    (tmp_path / "out" / "needle" / "broken").mkdir()
    (tmp_path / "out" / "needle" / "broken" / "config.json").write_text("{}")
    (row,) = run_json(capsys, "show", tmp_path / "out", "--json")["runs"]
    assert row["accuracy"] == whole.result["accuracy"]
    assert (row["task"], row["model"], row["trained"], row["seeds"]) == ("needle", "transformer", "embeddings", [0, 1])
    assert (row["settings"]["model.width"], row["settings"]["lr"]) == (16, 0.01)
    assert main(["show", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr()
    assert whole.path.name in shown.out
    assert "broken is damaged and skipped" in shown.err
    assert main(["show", str(tmp_path / "nothing")]) == 2
    assert "is not a run" in capsys.readouterr().err
    assert main(["show", str(whole.path)]) == 0
    assert "finished:   12 steps in" in capsys.readouterr().out


def test_parameters_are_had_by_their_seed():
    runs = ice.train(TASK, MODEL, seeds=(7, 3), steps=2, batch=8, warmup_steps=1, device="cpu")
    assert torch.equal(runs.parameters(3)["token"], runs.population.trained["token"][1])
    assert torch.equal(runs.parameters(7)["block0.v.weight"], initialize(MODEL, runs.config.dims, 7)["block0.v.weight"])
    with pytest.raises(InputError, match=r"the run has the seeds \[7, 3\], not 0"):
        runs.parameters(0)


def test_metrics_are_those_of_the_folder(whole):
    assert whole.metrics == list(RunFolder(whole.path).metrics()) == ice.load(whole.path, "cpu").metrics
    assert whole.metrics[-1]["step"] == 12
    assert [len(row["loss"]) for row in whole.metrics] == [2] * 12


def test_kept_seeds_are_a_run_of_their_own(tmp_path, capsys):
    whole = run_json(
        capsys, "train", "needle", *FLAGS, "--steps", "6", "--seeds", "3", "--out", tmp_path / "whole", "--json"
    )
    run = tmp_path / "whole" / "needle" / whole["run_id"]
    assert main(["extract", str(run), "--seeds", "2,0", "--out", str(tmp_path / "kept")]) == 0
    (kept,) = (tmp_path / "kept" / "needle").iterdir()
    config, population = RunFolder(kept).load(torch.device("cpu"))
    assert config.seeds == (2, 0)
    assert kept.name == config.run_id
    _, everything = RunFolder(run).load(torch.device("cpu"))
    assert torch.equal(population.trained["token"], everything.trained["token"][[2, 0]])
    again = run_json(capsys, "evaluate", kept, "--json")
    assert again["accuracy"] == [whole["accuracy"][2], whole["accuracy"][0]]
    assert list(RunFolder(kept).metrics())[-1]["loss"] == [
        list(RunFolder(run).metrics())[-1]["loss"][i] for i in (2, 0)
    ]
    assert main(["extract", str(run), "--seeds", "7,", "--out", str(tmp_path / "kept")]) == 2
    assert "has the seeds [0, 1, 2], not [7]" in capsys.readouterr().err


def test_kept_in_half_the_bits_a_run_loads_as_ever(tmp_path, whole):
    kept = RunFolder(whole.path).extract(whole.config.seeds[1:], tmp_path, half=True)
    assert load_tensors(kept.path / "weights.safetensors")[0]["token"].dtype == torch.float16
    _, population = kept.load(torch.device("cpu"))
    ours, theirs = population.trained["token"], whole.population.trained["token"][1:]
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, theirs, rtol=2**-11, atol=2**-25)  # half a step of float16, also of its least
    assert not torch.equal(ours, theirs)
    assert json.loads((kept.path / "result.json").read_text())["weights"] == "float16"
    with pytest.raises(InputError, match="is already there"):
        RunFolder(whole.path).extract(whole.config.seeds[1:], tmp_path)


def test_what_float16_cannot_hold_is_not_kept_in_it(tmp_path, whole):
    run = RunFolder(copied(whole, tmp_path))
    tensors, notes = load_tensors(run.path / "weights.safetensors")
    save_tensors(run.path / "weights.safetensors", {**tensors, "token": tensors["token"] * 1e9}, notes)
    with pytest.raises(InputError, match="token has values beyond float16"):
        run.extract(whole.config.seeds[:1], tmp_path / "kept", half=True)
    save_tensors(run.path / "weights.safetensors", tensors, {**notes, "with_body": True})
    with pytest.raises(InputError, match="was saved with its body"):
        run.extract(whole.config.seeds[:1], tmp_path / "kept", half=True)
    assert not (tmp_path / "kept").exists()


def test_what_cannot_be_kept_whole_is_not_kept_at_all(tmp_path, whole, monkeypatch, capsys):
    def full(*_arguments):
        raise InputError("the disk is full")

    command = ["extract", str(whole.path), "--seeds", "0,", "--out", str(tmp_path), "--half"]
    with monkeypatch.context() as patched:
        patched.setattr("icecore.training.run_folder.save_tensors", full)
        assert main(command) == 2
    assert list((tmp_path / "needle").iterdir()) == []
    first = dataclasses.replace(whole.config, seeds=whole.config.seeds[:1])
    (tmp_path / "needle" / f".{first.run_id}.part").mkdir()  # of one that was killed
    assert main(command) == 0
    (kept,) = (tmp_path / "needle").iterdir()
    assert main(["show", str(kept)]) == 0
    assert "icecore evaluate measures them" in capsys.readouterr().out


def test_what_a_run_gets_wrong_is_written_and_counted(tmp_path, whole, capsys):
    errors = tmp_path / "wrong.jsonl"
    found = run_json(capsys, "evaluate", whole.path, "--by-length", "--errors", errors, "--json")
    lines = [json.loads(line) for line in errors.read_text().splitlines()]
    items = TASK.items(TASK.test_set())
    seeds = whole.config.seeds
    assert sum(each["items"] for each in found["by_length"]) == len(items)
    assert [each["length"] for each in found["by_length"]] == sorted({len(item.prompt) for item in items})
    for index, seed in enumerate(seeds):
        here = [line for line in lines if line["seed"] == seed]
        assert len(here) == round((1 - whole.accuracy[index]) * len(items)), "of one answer each"
        assert len(here) == sum(each["wrong"][index] for each in found["by_length"]) > 0
        assert all(line["said"] != line["wanted"] == line["answer"] for line in here)
        assert {(tuple(line["prompt"]), tuple(line["answer"])) for line in here} <= set(items)
    assert main(["evaluate", str(whole.path), "--errors", str(whole.path / "weights.safetensors")]) == 2
    assert "holds only the run" in capsys.readouterr().err
    assert main(["evaluate", str(whole.path), "--by-length"]) == 0
    shown = capsys.readouterr().out
    assert f"wrong, seed {seeds[0]}" in shown
    assert "correct answers" in shown


def test_where_errors_cannot_be_written_is_found_before_evaluating(tmp_path, whole, capsys, monkeypatch):
    monkeypatch.setattr("icecore.training.population.predict", lambda *_, **__: pytest.fail("evaluated first"))
    (tmp_path / "a file").write_text("")
    assert main(["evaluate", str(whole.path), "--errors", str(tmp_path / "a file" / "wrong.jsonl")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_errors_say_what_is_scored_of_an_answer(tmp_path, capsys):
    flags = ["--test-size", "30", "--width", "16", "--steps", "2", "--batch", "8", "--warmup-steps", "1"]
    run = run_json(capsys, "train", "decimal-addition", *flags, "--device", "cpu", "--out", tmp_path, "--json")["run"]
    errors = tmp_path / "wrong.jsonl"
    found = run_json(capsys, "evaluate", run, "--by-position", "--errors", errors, "--json")
    of_all = [statistics.mean(each["accuracy"][0] for each in found["by_position"])]  # a sum has eleven scored tokens
    assert of_all == pytest.approx(found["accuracy"])
    assert main(["evaluate", run, "--by-position"]) == 0
    assert "among the scored tokens of its item" in capsys.readouterr().out
    lines = [json.loads(line) for line in errors.read_text().splitlines()]
    assert len(lines) > 20
    for line in lines:
        assert len(line["said"]) == len(line["wanted"]) == 11
        assert line["wanted"][:10] == line["answer"][1:11], "of a sum the first digit is not scored"


def test_a_whole_answer_is_wrong_if_one_token_is():
    from icecore.analysis.errors import accuracy_by_position, errors_by_length, wrong_items
    from icecore.tasks import DecimalAddition

    task = DecimalAddition(test_size=6)
    test = task.test_set()
    predictions = test.targets.repeat(2, 1, 1)
    place = int(test.scored[3].nonzero()[2])
    predictions[1, 3, place] += 1
    predictions[0, 2, 0] += 1  # which is not scored
    assert wrong_items(predictions, test).nonzero().tolist() == [[1, 3]]
    places = accuracy_by_position(predictions, test)
    assert [(each.position, each.items) for each in places] == [(place, 6) for place in range(1, 12)]
    assert [each.accuracy for each in places] == [(1.0, 5 / 6 if each.position == 3 else 1.0) for each in places]
    (only,) = errors_by_length(task.items(test), wrong_items(predictions, test))
    assert (only.items, only.wrong, only.answers) == (6, (0, 1), (task.items(test)[3].answer,))


def test_what_tells_runs_apart_is_listed_and_no_id_is_cut(tmp_path, capsys, monkeypatch):
    flags = [*FLAGS, "--steps", "2", "--out", tmp_path, "--json"]
    runs = [
        run_json(capsys, "train", "needle", *flags, *more)["run"]
        for more in ([], ["--model", "linearized"], ["--lr", "0.5"], ["--query", "marker"])
    ]
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["show", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for run in runs:
        assert f"needle/{run.rpartition('/')[2]}" in shown
    text = " ".join(shown.split())
    for part in ("prefix-sum", "lr 0.5", "query marker"):
        assert part in text
    assert "vocabulary" not in text, "which is the same in all"


def test_a_complete_run_says_that_it_was_not_trained_again(tmp_path, capsys):
    flags = ["train", "needle", *FLAGS, "--steps", "2", "--out", str(tmp_path)]
    for again in (False, True):
        assert main(flags) == 0
        assert ("was not trained again; --overwrite" in capsys.readouterr().err) is again


def test_errors_are_in_words_where_the_task_has_them(whole, tmp_path):
    errors = tmp_path / "wrong.jsonl"
    assert main(["evaluate", str(whole.path), "--errors", str(errors), "--by-length"]) == 0
    line = json.loads(errors.read_text().splitlines()[0])
    assert line["words"]["prompt"] == " ".join(TASK.words(line["prompt"]))
    assert line["words"]["prompt"].endswith("?")
    assert line["words"]["wanted"] == str(line["wanted"][0])


def test_claims_say_where_there_are_no_results(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["claims", "table1"]) == 2
    assert "there is no results/ here" in capsys.readouterr().err
    assert main(["claims", "table1", "--scale", "laptop"]) == 2
    assert "there is no runs/ here; icecore reproduce makes it" in capsys.readouterr().err
