"""What counts as reproduced and what as a reason: fixed beforehand, so that nothing here may drift."""

from typing import Any, cast

import pytest
from made_up import recorded

from icecore.reporting.claims import claims_of, judge
from icecore.reporting.paper_numbers import BETWEEN, FAILED, KNOWN, NUMBERS, SOLVED, TABLE2, Number
from icecore.store import Records
from icecore.sweeps import paper
from icecore.sweeps.paper import SCALES


def test_tolerances_are_those_that_were_fixed_beforehand():
    assert (SOLVED.points, FAILED.points, BETWEEN.points) == (1, 2, 5)
    chosen = [one for name in ("table1", "table2") for one in NUMBERS[name] if "LSTM" not in one.cell]
    assert {one.paper for one in chosen if one.tolerance is SOLVED} == {100.0, 98.5}
    assert {one.paper for one in chosen if one.tolerance is FAILED} == {0.4, 1.2, 1.3}
    assert judge(Number("x", 100.0, SOLVED), 99.0, "paper")[2] == "reproduced", "at most so many points"


def test_two_seeds_are_no_ground_to_look_for_reasons(tmp_path):
    recorded(tmp_path, paper.table1(SCALES["paper"], "released"), seeds=2)
    claims = claims_of(["table1"], "paper", "released", Records(tmp_path))
    notes = {claim.cell: claim.explanation for claim in claims if claim.verdict == "differs"}
    assert notes["needle, Random 1024"] == "2 seeds so far"


def test_what_is_missing_explains_no_number_above_the_papers():
    (number,) = [number for number in TABLE2 if number.cell == "parentheses, U only"]  # 92.3
    known = KNOWN[number.cell]
    assert known.accounts_for(number, [84.0], "released")
    assert not known.accounts_for(number, [99.0], "released")


@pytest.mark.parametrize("scale", ["paper", "laptop"])
def test_gains_are_those_of_their_labels(scale):
    cells = paper.gain(SCALES[scale], "released")
    assert len(cells) == 4 * 3 * 4
    assert all(cell.label.endswith(f"gain {cast(Any, cell.model).gain:g}") for cell in cells)
    assert {cast(Any, cell.model).gain for cell in cells} == {0.5, 1, 2, 4}
