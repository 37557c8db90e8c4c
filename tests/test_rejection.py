"""Draws that are test items are reported before anything trains."""

from pathlib import Path

import pytest

from icecore.cli import main
from icecore.tasks import DecimalAddition, ModularAddition, Needle, Parentheses, make_task
from icecore.tasks.rejection import what_is_rejected

EXAMPLE = Path(__file__).parents[1] / "examples" / "reversal.py"


def test_the_share_is_counted_by_length():
    found = what_is_rejected(Parentheses())
    assert found is not None
    assert found.share == pytest.approx(0.14, abs=0.01)
    assert [found.of_lengths[length] for length in (2, 3, 4)] == [1.0, 1.0, 1.0], (
        "one to three characters and the question"
    )
    assert 61 not in found.of_lengths
    assert found.is_much
    assert "100 % of 3" in str(found)


def test_a_large_task_loses_nothing_worth_a_word():
    found = what_is_rejected(DecimalAddition())
    assert found is not None
    assert found.of_lengths == {}
    assert not found.is_much
    assert str(found) == "0.0 % of the draws are test items, which training excludes"


@pytest.mark.parametrize("task", [ModularAddition(modulus=11), Needle(max_pairs=3, test_items_in_stream=True)], ids=str)
def test_where_nothing_is_dropped_there_is_nothing_to_say(task):
    assert what_is_rejected(task) is None


def test_it_is_said_by_tasks_and_before_a_task_of_ones_own_trains(tmp_path, capsys):
    name = f"{EXAMPLE}:Reversal"
    share = what_is_rejected(make_task(name, settings={"length": 4}))
    assert share is not None
    assert share.is_much
    assert main(["tasks", name, "--length", "4"]) == 0
    assert str(share) in capsys.readouterr().out
    assert main(["tasks", "--check", name]) == 0
    assert str(what_is_rejected(make_task(name))) in capsys.readouterr().out
    short = ["--width", "16", "--steps", "2", "--batch", "8", "--warmup-steps", "1", "--device", "cpu"]
    for length, is_said in (("4", True), ("6", False)):
        assert main(["train", name, "--length", length, *short, "--out", str(tmp_path)]) == 0
        assert ("are test items, which training excludes" in capsys.readouterr().err) is is_said
