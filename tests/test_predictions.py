"""Predictions stand for every cell, before its runs."""

from collections import Counter

import pytest

from icecore.paper import claims_of, table3
from icecore.paper.predictions import PREDICTED_PRESET, PREDICTIONS, predicted
from icecore.store import Records

TABLES = ("table1", "table2", "table3", "table4", "table7", "table9")


@pytest.mark.parametrize("name", TABLES)
def test_every_cell_has_exactly_one_prediction(tmp_path, name):
    claims = claims_of([name], "paper", PREDICTED_PRESET, Records(tmp_path))
    cells = [claim.cell for claim in claims if claim.paper is not None]
    if name == "table3":  # its other numbers follow from the two accuracies
        cells = [f"{kind} 128, accuracy" for kind in table3.PRINTED]
    assert Counter(one.cell for one in PREDICTIONS if one.name == name) == Counter(cells)


def test_predictions_have_reasons_and_some_expect_a_failure():
    assert {one.name for one in PREDICTIONS} == set(TABLES)
    assert all(one.reason and one.expected in ("within", "outside") for one in PREDICTIONS)
    assert {one.name for one in PREDICTIONS if one.expected == "outside"} == set(TABLES)


def test_other_presets_have_no_predictions():
    cell = ("table1", "needle, Random 16")
    assert predicted("released", *cell) is None
    found = predicted(PREDICTED_PRESET, *cell)
    assert found is not None
    assert found.expected == "within"
