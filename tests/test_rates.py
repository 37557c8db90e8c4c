"""`icecore compare --lr A,B`: each cell's rate is chosen on items that are neither trained on nor test items."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from small_sweep import CELLS

from icecore.cli import main
from icecore.errors import InputError
from icecore.seeding import make_generator
from icecore.store.rates import TriedRate, add_rates, chosen_rates, read_rates, tried_rates
from icecore.sweeps.rates import choose_rates
from icecore.tasks import Batch, Language, Memorization, ModularAddition, Needle, Task

NEEDLE = Needle(max_pairs=2, values=4, vocabulary=12, test_size=40)


def items_of(task: Task, batch: Batch) -> set:
    return set(task.items(batch))


def test_validation_items_are_neither_trained_on_nor_tested():
    reduced = NEEDLE.without_validation()
    validation = items_of(NEEDLE, NEEDLE.validation_set())
    trained = items_of(NEEDLE, reduced.sample(4_000, make_generator(0, "train")))
    assert validation
    assert not validation & items_of(NEEDLE, NEEDLE.test_set())
    assert not trained & validation
    assert not trained & items_of(NEEDLE, NEEDLE.test_set())


def test_a_finite_task_holds_out_training_items():
    task = ModularAddition(modulus=11)
    kept, validation = task.without_validation().train_set(), items_of(task, task.validation_set())
    assert kept is not None
    assert len(validation) == len(task.train_items()) // 10
    assert items_of(task, kept) | validation == set(task.train_items())
    assert not items_of(task, kept) & validation
    assert Memorization(keys=4).without_validation() == Memorization(keys=4)


def test_validation_items_are_no_test_items_where_training_keeps_those():
    """With the preset unfiltered, test items are in the training data; the reduced task drops both."""
    task = replace(NEEDLE, test_items_in_stream=True)
    reduced, validation = task.without_validation(), items_of(task, task.validation_set())
    trained = items_of(task, reduced.sample(4_000, make_generator(0, "train")))
    test = items_of(task, task.test_set())
    assert items_of(task, task.sample(4_000, make_generator(0, "train"))) & test
    assert not validation & test
    assert not trained & (validation | test)


def test_language_says_why_it_has_no_validation_items():
    with pytest.raises(InputError, match="language has no validation items beside its test windows"):
        Language().validation_set()


def test_compare_chooses_shows_and_remembers_the_rate(tmp_path: Path, capsys: pytest.CaptureFixture):
    command = ["compare", "modular-addition", "--modulus", "5", "--train-fraction", "0.8", "--widths", "8"]
    command += ["--trainable", "all", "--steps", "60", "--batch", "10", "--warmup-steps", "5", "--seeds", "1"]
    command += ["--lr", "1e-9,1e-2", "--out", str(tmp_path)]
    assert main([*command, "--json"]) == 0
    (rates,) = json.loads(capsys.readouterr().out)["rates"]
    accuracies = {float(rate): accuracy for rate, accuracy in rates["validation"].items()}
    assert rates["lr"] == max(accuracies, key=lambda rate: (accuracies[rate], -rate))
    stored = (tmp_path / "rates.jsonl").read_text()
    assert len(stored.splitlines()) == 2
    assert main(command) == 0
    assert "chosen on validation items" in capsys.readouterr().out
    assert (tmp_path / "rates.jsonl").read_text() == stored


def tried(key: str, lr: float, accuracy: float) -> TriedRate:
    return TriedRate(key, "needle, Random 16", "0123456789ab", lr, [0], [accuracy])


def test_a_damaged_line_is_a_rate_that_was_not_tried(tmp_path: Path):
    add_rates(tmp_path, [tried("a", 1e-2, 0.5), tried("b", 1e-3, 0.75)])
    path = tmp_path / "rates.jsonl"
    whole = path.read_text()
    right = json.loads(whole.splitlines()[0])
    wrongs = [{"accuracy": each} for each in ([2.0], [], ["0.5"], [True], "1", {"1": 0})]
    wrongs += [{"lr": each} for each in (float("nan"), 10**400, "0.01", True, 0, -1.0)]
    wrongs += [{"seeds": [0.5]}, {"seeds": [-1]}, {"seeds": 1}, {"more": 1}, {"of": 3}]
    for wrong in wrongs:
        path.write_text(json.dumps(right | {"key": "c"} | wrong) + "\n[1]\n{\n" + "[" * 100_000 + "\n" + whole)
        warnings: list[str] = []
        assert [one.key for one in read_rates(tmp_path, warnings.append)] == ["a", "b"], wrong
        assert [text.partition("rates.jsonl, ")[2] for text in warnings] == [
            f"line {number} is damaged and skipped" for number in range(1, 5)
        ]
    path.write_text(whole)
    assert chosen_rates(tmp_path) == {"0123456789ab": 1e-3}
    path.write_text(whole + '{"key": "c", "ce')  # a process was killed
    assert add_rates(tmp_path, [tried("c", 3e-3, 1.0), tried("a", 1e-2, 0.9)]) == 1, "the first result of a rate stays"
    assert chosen_rates(tmp_path) == {"0123456789ab": 3e-3}


def test_merging_brings_the_rates_that_were_chosen(tmp_path: Path, capsys: pytest.CaptureFixture):
    """Without them a merged cell would count at its own rate, at which it was not run."""
    for name, rates in (("one", [tried("a", 1e-2, 0.5)]), ("two", [tried("a", 1e-2, 0.5), tried("b", 1e-3, 0.75)])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "runs.jsonl").touch()
        add_rates(tmp_path / name, rates)
    ours = tmp_path / "ours"
    assert main(["results", "merge", str(tmp_path / "one"), str(tmp_path / "two"), "--results", str(ours)]) == 0
    assert tried_rates(ours) == tried_rates(tmp_path / "two")
    (tmp_path / "one" / "rates.jsonl").unlink()
    add_rates(tmp_path / "one", [tried("b", 1e-3, 0.5), tried("c", 1e-4, 0.5)])
    before = (ours / "rates.jsonl").read_text()
    assert main(["results", "merge", str(tmp_path / "one"), "--results", str(ours)]) == 2
    said = capsys.readouterr().err
    assert "needle, Random 16 at rate 0.001 is in" in said
    assert "validation accuracy 0.7500 and 0.5000" in said
    assert (ours / "rates.jsonl").read_text() == before


def test_merging_says_where_another_rate_is_better_now(tmp_path: Path, capsys: pytest.CaptureFixture):
    for name, rates in (("ours", [tried("a", 1e-2, 0.5)]), ("theirs", [tried("b", 1e-3, 0.75)])):
        add_rates(tmp_path / name, rates)
        (tmp_path / name / "runs.jsonl").touch()
    command = ["results", "merge", str(tmp_path / "theirs"), "--results", str(tmp_path / "ours"), "--json"]
    assert main(command) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == {"added": 0, "records": 0, "rates": 1}
    assert "1 cells now have another rate" in said.err


def test_cells_that_differ_in_their_own_rate_alone_share_what_was_tried(tmp_path: Path, monkeypatch):
    """Each of them finds all rates, so that both take the best."""
    one = CELLS[0]
    other = replace(one, name=replace(one.name, variant="again"), training=one.training | {"lr": 3e-2})
    for cell, count in ((one, 2), (other, 0)):
        trained: list[float] = []
        monkeypatch.setattr(
            "icecore.sweeps.rates.trained_at",
            lambda tried, *_, trained=trained: trained.append(tried.training["lr"]) or [tried.training["lr"] * 10],
        )
        (found,) = choose_rates([cell], (1e-2, 3e-2), 1, tmp_path)
        assert (found.lr, len(trained)) == (3e-2, count)
    assert chosen_rates(tmp_path) == {one.setting: 3e-2, other.setting: 3e-2}
    assert one.setting != other.setting


def test_a_wrong_list_of_rates_is_one_line(capsys: pytest.CaptureFixture):
    assert main(["compare", "needle", "--lr", "1e-3;2"]) == 2
    assert "--lr must be a number or several with commas" in capsys.readouterr().err
