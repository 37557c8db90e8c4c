"""Verdicts on hand-made cases whose answer is known: different, equivalent, weak, and corrected over a table."""

import json

import numpy as np
import pytest
from made_up import cells_at, record_of

from icecore.cli import main
from icecore.paper import claims_of
from icecore.paper.summary import SIDE_BY_SIDE, side_by_side
from icecore.reporting.claim import Claim, strictly_judged
from icecore.reporting.verdict import (
    COMBINED,
    Question,
    combined,
    holm,
    interval_of,
    judge_table,
    resampled_combined,
    resampled_groups,
    resampled_least,
    resampled_medians,
    rounding_of,
)
from icecore.store import Records


def judged(values, paper=50.0, points=5.0):
    ours = float(np.median(values))
    inside = paper - points <= ours <= paper + points
    return judge_table([Question(resampled_medians(values), paper - points, paper + points, paper, not inside)])[0]


@pytest.mark.parametrize(
    ("values", "verdict", "different", "equivalent"),
    [
        ([50.0] * 5, "reproduced", False, True),
        ([52.0] * 5, "reproduced", True, True),  # a real difference, smaller than the tolerance
        ([60.0] * 5, "differs", True, False),
        ([30.0, 40.0, 50.0, 60.0, 70.0], "undecided", False, False),
        ([50.1, 54.9, 54.9, 60.0, 60.0], "undecided", True, False),  # above it, and perhaps within the tolerance
    ],
)
def test_both_answers_make_the_verdict(values, verdict, different, equivalent):
    found = judged(values)
    assert (found.verdict, found.different, found.equivalent) == (verdict, different, equivalent)


@pytest.mark.parametrize(
    ("seeds", "spread", "different", "differs"),
    [(5, 0.3, (0.45, 0.75), (0.0, 0.0)), (10, 0.3, (0.05, 0.35), (0.0, 0.0)), (10, 1.0, (0.05, 0.35), (0.0, 0.1))],
)
def test_how_often_verdicts_are_wrong_where_the_paper_is_right(seeds, spread, different, differs):
    """In tables of 16 numbers that are all as printed; the bounds are four standard errors of 60 tables and more."""
    points, rng = 5.0, np.random.default_rng(0)
    wrong = {"different": 0, "differs": 0}
    for _ in range(60):
        drawn = 50.0 + points * spread * rng.standard_normal((16, seeds))
        outside = np.abs(np.median(drawn, axis=1) - 50.0) > points
        table = judge_table(
            [Question(resampled_medians(row), 45.0, 55.0, 50.0, out) for row, out in zip(drawn, outside, strict=True)]
        )
        wrong["different"] += any(one.different for one in table)
        wrong["differs"] += any(one.verdict == "differs" for one in table)
    assert different[0] <= wrong["different"] / 60 <= different[1], "what the docstring of verdict.py says"
    assert differs[0] <= wrong["differs"] / 60 <= differs[1]


def test_data_seeds_are_resampled_before_the_restarts_within_them():
    """With one value per data seed, both ends are a data seed; restarts of one data seed do not narrow that."""
    groups = [[90.0] * 10, [100.0] * 10]
    medians = resampled_groups(groups)
    assert medians is not None
    assert interval_of(medians) == (90.0, 100.0)
    shares = [np.mean(medians == value) for value in (90.0, 95.0, 100.0)]
    assert shares == pytest.approx([0.25, 0.5, 0.25], abs=0.014)  # two of two data seeds; four standard errors
    uneven = resampled_groups([[90.0] * 5, [100.0]])
    assert uneven is not None
    assert np.mean(uneven == 90.0) == pytest.approx(0.75, abs=0.013)  # five restarts outvote one
    assert resampled_groups([[90.0] * 10]) is None
    assert resampled_groups([[90.0] * 3, [100.0]]) is None, "four runs"


def test_runs_of_other_data_seeds_count_as_restarts(tmp_path):
    name = "needle, Normal 1024"
    (base,) = [cell for cell in cells_at("table1") if cell.label == name]
    redraws = [cell for cell in cells_at("data") if cell.label.startswith(name)]
    assert [cell.of_one_seed.data_seed for cell in redraws] == [1, 2, 3]
    for seed in range(5):
        Records(tmp_path).append([record_of(base, seed, 1.0)])

    def claim() -> Claim:
        (found,) = [one for one in claims_of(["table1"], "paper", "released", Records(tmp_path)) if one.cell == name]
        return found

    assert (claim().verdict, claim().interval) == ("reproduced", (100.0, 100.0))
    for cell in redraws:
        Records(tmp_path).append([record_of(cell, 0, 0.5)])
    assert (claim().n, claim().verdict, claim().interval) == (8, "undecided", (50.0, 100.0))
    assert "over 4 data seeds" in claim().note


def test_four_seeds_have_no_interval():
    assert judged([90.0] * 4).verdict == "undecided"
    assert judged([90.0] * 4).interval is None
    assert judge_table([None])[0].verdict == "not run"


def test_the_interval_of_five_seeds_is_their_range():
    """The median of a resample is the largest seed with probability .058, which is more than .025."""
    medians = resampled_medians([5.0, 1.0, 4.0, 2.0, 3.0])
    assert medians is not None
    assert interval_of(medians) == (1.0, 5.0)
    exact = sum(count * 0.2**k * 0.8 ** (5 - k) for k, count in ((3, 10), (4, 5), (5, 1)))
    assert (medians == 5.0).mean() == pytest.approx(exact, abs=0.01)


def test_a_printed_number_stands_for_all_that_round_to_it():
    assert [rounding_of(printed) for printed in (100.0, 17.67, 659_584)] == pytest.approx([0.05, 0.005, 0])
    assert judged([99.96] * 5, 100.0, 1.0).different is False
    assert judged([99.94] * 5, 100.0, 1.0).different is True


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert holm([]) == []


def test_a_difference_that_one_claim_shows_may_not_survive_a_table_of_many():
    values = [50.0, 52.0, 53.0, 54.0, 54.0, 60.0, 60.0]
    question = Question(resampled_medians(values), 49.0, 51.0, 50.0)
    alone = judge_table([question])[0]
    among = judge_table([question] + [Question(resampled_medians([50.0] * 5), 45.0, 55.0, 50.0)] * 400)[0]
    assert (alone.verdict, among.verdict) == ("differs", "undecided")
    assert alone.p is not None
    assert among.p is not None
    assert alone.p < 0.05 < among.p


def test_numbers_from_several_cells():
    first, second = (3.0,) * 5, (2.0,) * 5
    by_hand = {
        "ratio": 1.5,
        "difference": 1.0,
        "least": 2.0,
        "most": 3.0,
        "mean difference": 1.0,
        "percent above": 100.0,
    }
    assert set(by_hand) == set(COMBINED)
    for how, value in by_hand.items():
        assert combined(how, [first, second]) == value
        medians = resampled_combined(how, [first, second])
        assert medians is not None
        assert set(medians) == {value}
        assert combined(how, [first, ()]) is None
        assert resampled_combined(how, [first, second[:4]]) is None


def test_the_worst_restart_decides_where_all_must_be_right():
    least = resampled_least([99.0, 100.0, 100.0, 100.0, 10.0])
    assert least is not None
    assert interval_of(least)[0] == 10.0
    made = Claim("text", "a", None, 10.0, (100.0,) * 9 + (10.0,), None, "at least 99", "", "")
    (by_median,) = strictly_judged([Claim(**{**vars(made), "ours": 100.0, "allowed": (99.0, np.inf)})])
    (by_worst,) = strictly_judged([Claim(**{**vars(made), "is_worst": True, "allowed": (99.0, np.inf)})])
    assert (by_median.verdict, by_worst.verdict) == ("reproduced", "undecided")


def test_a_number_that_a_baseline_has_too_is_weak(tmp_path):
    cells = {cell.label: cell for cell in cells_at("table1")}
    for label, accuracy in (("needle, Random 16", 0.075), ("needle, Random 1024", 1.0)):
        rows = [record_of(cells[label], seed, accuracy) | {"baselines": {"a rule": 0.1}} for seed in range(5)]
        Records(tmp_path).append(rows)
    shown = {one.cell: one.shown_verdict for one in claims_of(["table1"], "paper", "released", Records(tmp_path))}
    assert shown["needle, Random 16"] == "reproduced (weak)"
    assert shown["needle, Random 1024"] == "reproduced"


def test_a_change_explains_what_it_gives_on_another_cell_too(tmp_path):
    usual, changed = ({cell.label: cell for cell in cells_at("table1", "paper", p)} for p in ("released", "unfiltered"))
    labels = ["parentheses, Normal 16", "parentheses, Random 16"]  # the paper has 100.0 and 87.3

    def explanations(accuracies: tuple[float, float]) -> list[str]:
        folder = tmp_path / str(accuracies)
        for label, accuracy in zip(labels, accuracies, strict=True):
            Records(folder).append(record_of(usual[label], seed, 0.7) for seed in range(5))
            Records(folder).append(record_of(changed[label], seed, accuracy) for seed in range(3))
        claims = {one.cell: one for one in claims_of(["table1"], "paper", "released", Records(folder))}
        return [claims[label].explanation for label in labels]

    assert explanations((1.0, 0.873)) == [f"with --preset unfiltered: {n}, 3 seeds" for n in (100.0, 87.3)]
    assert all(text.startswith("unexplained") for text in explanations((1.0, 0.5)))


def test_the_preset_that_was_predicted_explains_without_a_second_cell(tmp_path):
    usual, changed = (
        {cell.label: cell for cell in cells_at("table1", "paper", p)} for p in ("released", "reconstructed")
    )
    labels = {"needle, Normal 1024": 1.0, "decimal-addition, Normal 16": 0.675}  # predicted within, and outside
    found = {}
    for label, accuracy in labels.items():
        folder = tmp_path / label
        Records(folder).append(record_of(usual[label], seed, 0.3) for seed in range(5))
        Records(folder).append(record_of(changed[label], seed, accuracy) for seed in range(3))
        (claim,) = [one for one in claims_of(["table1"], "paper", "released", Records(folder)) if one.n]
        found[label] = claim.explanation.startswith("unexplained")
    assert found == {"needle, Normal 1024": False, "decimal-addition, Normal 16": True}


def test_presets_stand_side_by_side_within_80_columns(tmp_path, capsys):
    needle = {cell.label: cell for cell in cells_at("table1")}["needle, Random 1024"]
    Records(tmp_path).append(record_of(needle, seed, 1.0) for seed in range(5))
    table = side_by_side(["table1", "table3", "fig7"], "paper", Records(tmp_path))
    assert table.headings == ("name", *SIDE_BY_SIDE)
    rows = {row[0]: [cell.split() for cell in row[1:]] for row in table.rows}
    assert list(rows) == ["table1", "table3", "all"], "Figure 7 prints no number"
    assert rows["table1"][0] == ["1", "-", "-", "-", "19"]
    assert rows["table3"] == [["-", "-", "-", "-", "2"]] * 3, "two measurements, not nine"
    assert rows["all"][0] == ["1", "-", "-", "-", "21"]
    assert main(["claims", "--summary", "--results", str(tmp_path)]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
    assert main(["claims", "table1", "--summary", "--json", "--results", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert dict(zip(found["verdicts"], found["summary"]["table1"]["released"], strict=True))["reproduced"] == 1
