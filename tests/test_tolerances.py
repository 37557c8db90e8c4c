"""Tolerances and accepted reasons, fixed beforehand: nothing here may drift."""

from typing import Any, cast

import pytest
from made_up import cells_at, record, record_of, recorded

from icecore.paper import EXPERIMENTS, claims_of, evidence_of, table1, table2, table4
from icecore.paper.accuracy import judge
from icecore.paper.numbers import BETWEEN, FAILED, SOLVED, Number
from icecore.paper.shares import choices_of
from icecore.store import Records
from icecore.sweeps.names import CellName


def test_tolerances_are_those_that_were_fixed_beforehand():
    assert (SOLVED.points, FAILED.points, BETWEEN.points) == (1, 2, 5)
    chosen = [one for one in (*table1.NUMBERS, *table2.NUMBERS) if one.cell.kind != "LSTM"]
    assert {one.paper for one in chosen if one.tolerance is SOLVED} == {100.0, 98.5}
    assert {one.paper for one in chosen if one.tolerance is FAILED} == {0.4, 1.2, 1.3}
    assert judge(Number(CellName("needle", "Random"), 100.0, SOLVED), 99.0, "paper")[2] == "reproduced", (
        "at most so many points"
    )


def test_two_seeds_are_no_ground_to_look_for_reasons(tmp_path):
    recorded(tmp_path, cells_at("table1"), seeds=2)
    claims = claims_of(["table1"], "paper", "released", Records(tmp_path))
    notes = {claim.cell: claim.explanation for claim in claims if claim.explanation}
    assert notes["needle, Random 1024"] == "2 seeds so far"
    assert {claim.verdict for claim in claims} == {"undecided"}


def test_what_is_missing_explains_no_number_above_the_papers():
    (number,) = [one for one in table2.NUMBERS if one.cell == CellName("parentheses", "U only")]  # 92.3
    known = table2.KNOWN[number.cell]
    assert known.accounts_for(number, [84.0], "released")
    assert not known.accounts_for(number, [99.0], "released")


@pytest.mark.parametrize("scale", ["paper", "laptop"])
def test_gains_are_those_of_their_labels(scale):
    cells = cells_at("gain", scale, "released")
    assert len(cells) == 4 * 3 * 4
    assert all(cell.label.endswith(f"gain {cast(Any, cell.model).gain:g}") for cell in cells)
    assert {cast(Any, cell.model).gain for cell in cells} == {0.5, 1, 2, 4}


def test_a_share_beyond_its_tolerance_is_not_counted_as_within(tmp_path):
    cells = {cell.label: cell for cell in cells_at("table4")}
    cell = cells["needle, Random 1024"]
    places: dict[str, list[float]] = {}
    for share in table4.SHARES:
        if share.cell == cell.name:
            off = 0.9 if share.kind == "directions" else 1.1  # of the tolerance
            value = (share.paper + off * share.tolerance.points) / 100
            places.setdefault(share.place, [0.0, 0.0])[share.kind != "directions"] = value
    for seed in range(5):
        config = cell.config((seed,), "bf16")
        made = {"setting": cell.setting, "seed": seed, "config": config.as_json(), "variance": {"read": places}}
        Records(tmp_path, name="inside.jsonl").append([record(config.run_id, **made)])
    (choice,) = [
        one
        for one in choices_of([(EXPERIMENTS["table4"], table4.SHARES)], evidence_of(Records(tmp_path)))
        if one.numbers == 6
    ]
    assert (choice.positions, choice.last_layer, choice.within) == ("read", "after", 3)
    verdicts = [claim.verdict for claim in claims_of(["table4"], "paper", "released", Records(tmp_path)) if claim.n]
    assert verdicts == ["reproduced"] * 3 + ["differs"] * 3


def test_what_was_changed_is_compared_in_the_same_precision(tmp_path):
    cells, changed = (
        {cell.label: cell for cell in cells_at("table1", "paper", preset)}["parentheses, Normal 16"]
        for preset in ("released", "unfiltered")
    )
    rows = [record_of(cells, seed, 0.9) for seed in range(3)] + [record_of(changed, seed, 0.5) for seed in range(2)]
    Records(tmp_path).append(rows + [record_of(changed, seed, 0.7, "tf32") for seed in range(3)])
    claims = claims_of(["table1"], "paper", "released", Records(tmp_path))
    (claim,) = [claim for claim in claims if claim.n]
    assert claim.explanation == "unexplained; with --preset unfiltered: 50.0, 2 seeds"


def test_a_number_that_another_precision_has_is_explained(tmp_path):
    cell = {cell.label: cell for cell in cells_at("table1")}["parentheses, Normal 16"]
    for accuracy, is_explained in ((0.8, False), (1.0, True)):  # the paper has 100.0
        folder = tmp_path / str(accuracy)
        Records(folder).append(record_of(cell, seed, 0.9) for seed in range(5))
        Records(folder).append(record_of(cell, seed, accuracy, "tf32") for seed in range(3))
        (claim,) = [one for one in claims_of(["table1"], "paper", "released", Records(folder)) if one.n]
        assert (claim.verdict, "unexplained" in claim.explanation) == ("differs", not is_explained)
