"""`reproduce transplant`: bodies of other tasks, their tables, predictions and figure."""

import dataclasses

import pytest
from made_up import record_of

from icecore.cli import main
from icecore.paper import EXPERIMENTS, evidence_of
from icecore.paper.scales import FOUR
from icecore.paper.transplant import LANGUAGE, moved, name_of
from icecore.paper.transplant_tables import RANDOM, differences, moved_table, outcomes
from icecore.store import Records

WIDE, NARROW = 128, 32


def cells_of(folder):
    return {cell.name: cell.made for cell in EXPERIMENTS["transplant"].of(evidence_of(Records(folder), "laptop"))}


def record(folder, accuracies, seeds=3):
    """Record made-up accuracies by task, body and width."""
    cells = cells_of(folder)
    for (task, body, width), accuracy in accuracies.items():
        cell = cells[name_of(task, body, width)]
        Records(folder).append([record_of(cell, seed, accuracy + 0.001 * seed, "fp32") for seed in range(seeds)])


def test_bodies_come_from_full_training_and_only_embeddings_train():
    cells = {cell.name: cell.made for cell in EXPERIMENTS["transplant"].at("laptop", "released")}
    made = cells[name_of("needle", "parentheses", WIDE)]
    assert made.trainable == "embeddings"
    assert made.origin is not None
    assert (made.origin.take, made.origin.cell.trainable, made.origin.cell.task.name) == ("body", "all", "parentheses")
    assert made.origin.cell.model == made.model, "a body fits the model that it goes into"
    assert cells[name_of("needle", RANDOM, WIDE)].origin is None
    assert len({cell.setting for cell in cells.values()}) == len(cells) == 2 * 4 * 5


def test_tables_set_bodies_beside_a_random_one(tmp_path):
    record(
        tmp_path,
        {
            ("needle", RANDOM, WIDE): 0.5,
            ("needle", "needle", WIDE): 0.9,
            ("needle", "parentheses", WIDE): 0.4,
            ("parentheses", RANDOM, WIDE): 0.8,
        },
    )
    found = moved(evidence_of(Records(tmp_path), "laptop"))
    table = {row["body trained on"]: row for row in moved_table(found, WIDE).records()}
    assert table["random"]["needle"] == "50.1 (50.0 to 50.2)"
    assert table["needle"]["parentheses"] == "-", "not run"
    rows = {row["body trained on"]: row for row in differences(found).records()}
    assert rows["needle"]["needle"] == "+40.0"
    assert rows["parentheses"]["needle"] == "-10.0"
    said = {row["prediction"]: (row["ours"], row[""]) for row in outcomes(found).records()}
    assert said["a body helps its own task"] == ("40.00", "held (1 of 8)")
    assert said["a body does not help other tasks"] == ("-10.00", "held (1 of 24)")
    assert said["a body of a text helps to look up"] == ("", "not run")


def test_a_width_at_which_fewer_tasks_were_run_has_rows_as_long_as_the_others(tmp_path):
    of_wide = {(task, body, WIDE): 0.5 for task in ("needle", "parentheses") for body in (RANDOM, "needle")}
    record(tmp_path, {**of_wide, ("needle", RANDOM, NARROW): 0.5, ("needle", "needle", NARROW): 0.6})
    table = differences(moved(evidence_of(Records(tmp_path), "laptop")))
    assert {len(row) for row in table.rows} == {len(table.headings)}
    assert table.records()[-1]["parentheses"] == "-"


def test_five_seeds_have_an_interval(tmp_path):
    record(tmp_path, {("needle", RANDOM, WIDE): 0.5, ("needle", "needle", WIDE): 0.9}, seeds=5)
    (row,) = differences(moved(evidence_of(Records(tmp_path), "laptop"))).records()
    assert row["needle"] == "+40.0 (+39.7 to +40.3)"


def test_runs_around_bodies_of_language_are_found_without_their_text(tmp_path):
    plain = cells_of(tmp_path)[name_of("needle", RANDOM, NARROW)]
    (made,) = [record_of(plain, 0, 0.7, "fp32")]
    where = {"task": LANGUAGE, "run": "0" * 12, "sha256": ["0" * 64]}
    config = {**made["config"], "start": {"take": "body", "setting": "1" * 12, "where": where}}  # type: ignore[dict-item]
    Records(tmp_path).append([{**made, "run": "2" * 12, "setting": "3" * 12, "config": config}])
    (one,) = moved(evidence_of(Records(tmp_path), "laptop"))
    assert (one.task, one.body, one.width, one.median) == ("needle", LANGUAGE, NARROW, pytest.approx(70.0))


def test_claims_and_the_figure_show_what_was_run(tmp_path, capsys):
    record(tmp_path, {(task, RANDOM, width): 0.5 for task in FOUR for width in (WIDE, NARROW)})
    measured = EXPERIMENTS["transplant"].claims_of(evidence_of(Records(tmp_path), "laptop"))
    known = [claim for claim in measured if claim.ours is not None]
    assert known
    assert all(claim.values == claim.sources[0].values and len(claim.sources[0].runs) == 3 for claim in known)
    flags = ["--scale", "laptop", "--results", str(tmp_path)]
    assert main(["claims", "transplant", *flags]) == 0
    assert "new embeddings around a frozen body" in capsys.readouterr().out
    assert main(["figure", "transplant", *flags, "--out", str(tmp_path / "moved.png")]) == 0
    assert "8 points, 24 values" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["thaw", "transplant", "rank"])
def test_no_two_cells_of_the_papers_scale_share_a_label(name):
    """Settings of the paper's scale are cached by label."""
    by_label: dict[str, set[str]] = {}
    for experiment in (EXPERIMENTS[name], EXPERIMENTS["init"], EXPERIMENTS["fig7"]):
        for cell in experiment.at("paper", "released")[::7]:
            made = dataclasses.replace(cell.made, rates=None)
            by_label.setdefault(cell.label, set()).add(made.setting)
    assert all(len(settings) == 1 for settings in by_label.values())
