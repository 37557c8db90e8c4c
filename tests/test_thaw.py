"""`reproduce thaw`: its cells, tables, predictions and figure, from made-up tracks."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from made_up import record_of

from icecore.cli import main
from icecore.paper import EXPERIMENTS, evidence_of
from icecore.paper.scales import FOUR
from icecore.paper.thaw import SIZES, Arm, name_of, thaws
from icecore.paper.thaw_tables import MOVED
from icecore.store import TRACKS, Records

WIDE, NARROW = 128, 32
SLOW, MIDDLE, FAST = (Arm(rate) for rate in SIZES["laptop"].rates)
SHORT = Arm(MIDDLE.rate, rescales_unembed=True)
Scores = Mapping[str, float | None]


def cells():
    return {cell.name: cell.made for cell in EXPERIMENTS["thaw"].at("laptop", "released")}


def point(seed: int, scores: Scores, is_above: bool = True) -> dict[str, Any]:
    measures = {
        name: {"here": 0.5, "refined": 1.0, "replaced": 0.0, "score": score, "causal": not name.endswith("*")}
        for name, score in scores.items()
    }
    accuracies = {"accuracy": 0.99, "accuracy_before": 0.9, "above_baseline": {"before": is_above, "after": True}}
    return {"seed": seed, "step": 8, **accuracies, "measures": measures}


def track(folder, task: str, width: int, arm: Arm, scores: Scores, full: Scores, is_above: bool = True) -> None:
    cell = cells()[name_of(task, width, arm)]
    for seed in range(3):
        own = {"points": [point(seed, scores, is_above)], "beside": [point(seed, full)], "steps": [8], "before": 0}
        run = dataclasses.replace(cell, tracking=None)
        Records(folder).append([record_of(run, seed, 0.99, "fp32")])
        Records(folder).beside(TRACKS).append(
            [{**record_of(run, seed, 0.99, "fp32"), "track": {**own, "null": "seed 1"}}]
        )


def evidence(folder):
    return evidence_of(Records(folder), "laptop")


def tables_of(folder):
    thaw = EXPERIMENTS["thaw"]
    assert thaw.tables is not None
    return thaw.tables(thaw, evidence(folder))


def test_thaws_start_from_random_runs_and_stand_beside_full_training():
    made = cells()
    assert len(made) == len({cell.setting for cell in made.values()}) == len(FOUR) * 2 * 4
    for arm in (SLOW, SHORT):
        cell = made[name_of("needle", WIDE, arm)]
        assert cell.origin is not None
        assert cell.tracking is not None
        beside = cell.tracking.beside
        assert beside is not None
        assert (cell.trainable, cell.of_one_seed.training.lr) == ("all", arm.rate)
        assert (cell.origin.take, cell.origin.cell.trainable) == ("all", "embeddings")
        assert cell.origin.rescale == ("unembed" if arm.rescales_unembed else None)
        assert beside.trainable == "all"
        assert cell.model == cell.origin.cell.model == beside.model


def test_tables_say_what_became_of_the_mechanism(tmp_path):
    unrelated = {"swap": 0.0, "patch": 0.2, "CKA *": 0.9}
    track(tmp_path, "needle", WIDE, SLOW, {"swap": 1.0, "patch": 0.8, "CKA *": 0.1}, unrelated)
    track(tmp_path, "needle", WIDE, FAST, {"swap": 0.1, "patch": 0.1, "CKA *": 0.1}, unrelated)
    track(tmp_path, "needle", NARROW, SLOW, {"swap": None, "patch": None, "CKA *": 0.1}, unrelated)
    track(tmp_path, "parentheses", WIDE, SLOW, {"swap": 1.0, "patch": 1.0}, unrelated, is_above=False)
    said, scores, predictions = tables_of(tmp_path)
    rows = {(row["task"], row["width"], row["thaw"]): row for row in said.records()}
    answers = {place: (row["mechanism"], row["score"]) for place, row in rows.items()}
    assert answers == {
        ("needle", "128", "rate 0.0001"): ("refined", "0.90"),
        ("needle", "128", "rate 0.005"): ("replaced", "0.10"),
        ("needle", "32", "rate 0.0001"): ("cannot tell", ""),
        ("parentheses", "128", "rate 0.0001"): ("nothing to refine", ""),
    }
    first = rows["needle", "128", "rate 0.0001"]
    assert (first["before"], first["after"], first["Normal"], first["seeds"]) == ("90.0", "99.0", "0.10", "3")
    assert {row["measure"] for row in scores.records()} == {"swap", "patch"}, "the starred ones are not causal"
    held = {row["prediction"]: (row["ours"], row[""]) for row in predictions.records()}
    assert held["a slow thaw refines"] == ("0.90", "held (1 of 4)"), "one task of four is not all that was predicted"
    assert held["a fast thaw replaces more"] == ("0.80", "held (1 of 4)")
    assert held["full training finds another mechanism"] == ("0.10", "held (2 of 4)")
    assert held["a short head replaces more"] == ("", "not run")


def test_a_score_above_that_of_an_unchanged_mechanism_is_farther_from_it(tmp_path):
    track(tmp_path, "needle", WIDE, SLOW, {"swap": 1.4, "patch": 1.0}, {"swap": 0.0, "patch": 0.0})
    (thaw,) = thaws(EXPERIMENTS["thaw"], evidence(tmp_path))
    assert thaw.mean_scores == pytest.approx([0.8] * 3)


def test_predictions_about_all_tasks_need_all_of_them(tmp_path):
    for task in FOUR:
        track(tmp_path, task, WIDE, SLOW, {"swap": 1.0, "patch": 0.8}, {"swap": 0.0, "patch": 0.0})
    held = {row["prediction"]: row[""] for row in tables_of(tmp_path)[2].records()}
    assert held["a slow thaw refines"] == held["full training finds another mechanism"] == "held"


def test_the_table_says_how_far_the_body_moved(tmp_path):
    """A body that has not moved is refined by every measure, and that says little."""
    track(tmp_path, "needle", WIDE, SLOW, {"swap": 1.0, MOVED: 0.9}, {"swap": 0.0, MOVED: 0.2})
    (row,) = tables_of(tmp_path)[0].records()
    assert row["moved"] == "0.500"


def test_claims_and_the_figure_show_tracks(tmp_path, capsys):
    track(tmp_path, "needle", WIDE, SLOW, {"swap": 1.0, "patch": None}, {"swap": 0.0, "patch": 0.0})
    (claim,) = [one for one in EXPERIMENTS["thaw"].claims_of(evidence(tmp_path)) if one.n]
    assert (claim.ours, claim.note, len(claim.sources[0].runs)) == (1.0, "cannot tell", 3), "half of the measures"
    flags = ["--scale", "laptop", "--results", str(tmp_path)]
    assert main(["claims", "thaw", *flags]) == 0
    assert "of the embeddings refined or replaced?" in capsys.readouterr().out
    assert main(["figure", "thaw", *flags, "--out", str(tmp_path / "thaw.png")]) == 0
    assert (tmp_path / "thaw.png").stat().st_size > 10_000
