"""Predictions stand for every cell, before its runs."""

from collections import Counter

import pytest
from made_up import cells_at, record_of

from icecore.cli import main
from icecore.paper import claims_of, table3
from icecore.paper.outcomes import outcomes
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


def test_outcomes_list_what_moved_away_first(tmp_path, capsys):
    """needle, Random 16: predicted within 5 of 7.5. decimal addition, Normal 16: predicted outside 5 of 67.5."""
    for preset, accuracies in (("released", (0.075, 0.3)), ("reconstructed", (0.2, 0.7))):
        cells = {cell.label: cell for cell in cells_at("table1", preset=preset)}
        for label, accuracy in zip(("needle, Random 16", "decimal-addition, Normal 16"), accuracies, strict=True):
            Records(tmp_path).append([record_of(cells[label], seed, accuracy) for seed in range(5)])
    table = outcomes(Records(tmp_path))
    shown = [
        (row["cell"], row["released"], row["reconstructed"], row["predicted"], row["outcome"])
        for row in table.records()
    ]
    assert shown == [
        ("needle, Random 16", "7.5", "20.0", "within", "outside"),
        ("decimal-addition, Normal 16", "30.0", "70.0", "outside", "within"),
    ]
    assert table.notes == (f"0 of 2 predictions held; {len(PREDICTIONS) - 2} were not run",)
    assert main(["claims", "--predictions", "--results", str(tmp_path), "--markdown"]) == 0
    assert "| needle, Random 16 | 7.5 | 7.5 | 20.0 |" in capsys.readouterr().out
    assert main(["claims", "table1", "--predictions", "--results", str(tmp_path)]) == 2
    assert "drop NAME" in capsys.readouterr().err
