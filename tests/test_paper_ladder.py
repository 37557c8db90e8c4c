"""`icecore reproduce ladder`: cells, the order of training, thresholds, predictions, and its figure."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_up import record_of

from icecore.cli import main
from icecore.paper import EXPERIMENTS, evidence_of, ladder_cells
from icecore.paper.ladder_cells import cells_by_place
from icecore.paper.ladder_figure import NOT_RUN, marks
from icecore.paper.ladder_grid import GROUPS, KINDS, RUNGS, WIDTHS, Rung
from icecore.paper.ladder_outcomes import factors_per_doubling, guesses, order, share_of_pairs
from icecore.paper.ladder_predictions import REACHES
from icecore.paper.ladder_steps import Step, steps_of
from icecore.reporting.thresholds import Threshold
from icecore.store import Records
from icecore.store.rates import tried_rates
from icecore.tasks import LADDER, TASKS

GRID = (16, 32, 64)


def threshold(*by_width: tuple[float, ...] | None, widths: tuple[int, ...] = GRID) -> Threshold:
    """Return the threshold of seeds' accuracies by width; None is a width that was not run."""
    found = {width: dict(enumerate(each)) for width, each in zip(widths, by_width, strict=False) if each is not None}
    return Threshold(found, widths, 99.0)


@pytest.mark.parametrize(
    ("made", "state", "number", "text"),
    [
        (threshold((50, 60, 99.5), (99, 100, 98)), "reached", 32, "32 (16 to 32)"),
        (threshold((50, 60, 70), (99, 100, 98)), "reached", 32, "32 (32 to > 32)"),
        (threshold((50, 60, 70), (99, 100, 99)), "reached", 32, "32"),
        (threshold((50, 60, 70), (60, 60, 60), (70, 98.9, 100)), "not reached", 128, "> 64 (best 98.9 at 64)"),
        (threshold((50, 60, 70), None, None), "not finished", None, "> 16 (best 60.0 at 16, 32 64 not run)"),
        (threshold(None, (99, 99, 99)), "reached", None, "32 (16 not run)"),
        (threshold(), "not run", None, "not run"),
    ],
)
def test_thresholds_say_what_was_reached_and_what_was_not_run(made, state, number, text):
    assert (made.state, made.number, str(made)) == (state, number, text)


@pytest.mark.parametrize("scale", ["paper", "laptop"])
def test_the_grid_has_every_task_at_several_difficulties_narrow_widths_first(scale):
    rungs = RUNGS[scale]
    assert {rung.task for rung in rungs} == {task.name for task in LADDER}
    assert all(TASKS[rung.task].difficulty_setting == rung.setting for rung in rungs)
    assert all(sum(one.line == rung.line for one in rungs) >= 2 for rung in rungs)
    assert {rung.layers for rung in rungs if rung.task in ("k-hop", "cycles")} == {2, 4}
    cells = cells_by_place(scale)
    assert [width for width, _, _ in cells] == sorted(width for width, _, _ in cells)
    assert len(cells) == len(rungs) * len(KINDS) * len(WIDTHS[scale])


def test_cells_are_matched_or_normal_with_rates_of_their_own():
    rung = RUNGS["paper"][0]
    random, normal = (cells_by_place("paper")[64, rung, kind].made for kind in KINDS)
    assert (random.trainable, normal.trainable) == ("embeddings", "all")
    assert (random.model.init, normal.model.init) == ("matched", "released")  # type: ignore[attr-defined]
    assert len(set(random.rates or ())) >= 2
    assert random.setting != normal.setting


def test_every_line_has_a_guess_and_guesses_name_difficulties_of_the_grid():
    assert set(REACHES) == {rung.line for rung in RUNGS["paper"]}
    for line, (values, _) in REACHES.items():
        assert set(values) < {rung.value for rung in RUNGS["paper"] if rung.line == line} | {0}


# ---- predictions, on made-up steps


def step(task: str, value: int, random: int | None, normal: int = 16, layers: int = 2, **coordinates: float) -> Step:
    """Return a step at which these widths suffice; None: no width does."""

    def reached(width: int | None) -> Threshold:
        return threshold(*((100.0,) if width is not None and each >= width else (50.0,) for each in GRID))

    setting = TASKS[task].difficulty_setting or ""
    rung = Rung(task, setting, value, layers)
    return Step(rung, coordinates, ("chance", 0.5), {"Random": reached(random), "Normal": reached(normal)}, {})


def test_pairs_are_counted_with_ties_as_a_half():
    steps = [step("parity", n, n_width, sensitivity=n) for n, n_width in ((4, 16), (8, 32), (16, None))]
    assert share_of_pairs(steps, "sensitivity") == 1.0
    assert share_of_pairs([*steps, step("copying", 8, None, sensitivity=4)], "sensitivity") == (2 + 0.5 + 0) / 4
    assert share_of_pairs(steps[:2], "sensitivity") is None, "nothing fails"


def test_symbols_are_counted_per_doubling():
    steps = [step("counting", 16, 16), step("counting", 64, 64), step("counting", 256, None), step("sorting", 5, 16)]
    assert factors_per_doubling(steps) == pytest.approx([2.0, 2**0.5]), "not reached counts as twice the widest"
    assert factors_per_doubling([step("sorting", 5, None), step("sorting", 10, None)]) == [], "nothing to compare"


def test_groups_that_are_all_out_of_reach_tell_nothing():
    def of_group(group: str, random: int | None) -> Step:
        made = step("word-problem", 2, random)
        return dataclasses.replace(made, rung=dataclasses.replace(made.rung, more=(("group", group),)))

    def verdict(*widths: int | None) -> tuple[str, str]:
        rows = order([of_group(group, width) for group, width in zip(GROUPS, widths, strict=True)]).records()
        (row,) = [row for row in rows if row["prediction"] == "class alone does not matter"]
        return row["ours"], row[""]

    assert verdict(None, None, None) == ("", "cannot tell")
    assert verdict(16, 32, 16) == ("2.00", "held")
    assert verdict(16, 32, None) == (f"{2 * GRID[-1] / 16:.2f}", "failed")


def test_predictions_hold_or_fail_by_the_widths():
    rows = order([step("k-hop", 2, None, 64, rounds=3), step("k-hop", 2, None, 16, layers=4, rounds=3)]).records()
    found = {row["prediction"]: (row["ours"], row[""]) for row in rows}
    assert found["more layers, more hops"] == ("0.00", "failed")
    assert found["sensitivity decides"] == ("", "cannot tell"), "nothing is reached"
    assert found["symbols move the width"] == ("", "not run")
    table = guesses([step("parity", 4, 16), step("parity", 8, 32), step("parity", 16, None)])
    (row,) = [row for row in table.records() if row["task"] == "parity"]
    assert row["outcome"] == "4 held, 8 failed, 16 held"
    assert "2 of 3 held" in table.title


# ---- through the command line

TINY = Rung("parity", "length", 4)
WIDE = WIDTHS["laptop"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One rung: Random at width 8 is made up and suffices; Normal is trained for some steps at its better rate."""
    folder = tmp_path_factory.mktemp("ladder")
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(ladder_cells.TRAINING, "laptop", {"steps": 20, "batch": 16, "warmup_steps": 2})
        ladder_cells.cells_by_place.cache_clear()
        ladder_cells.task_of.cache_clear()
        enough = cells_by_place("laptop")[WIDE[0], TINY, "Random"].made
        Records(folder).append([record_of(enough, seed, 1.0, "fp32") for seed in (0, 1)])
        yield folder
    ladder_cells.cells_by_place.cache_clear()
    ladder_cells.task_of.cache_clear()


def only(kind: str) -> list[str]:
    return [text for width in WIDE[:2] for text in ("--only", f"parity, {kind} {width}x2, length 4")]


def test_widths_are_tried_until_one_suffices_and_rates_on_validation_items(folder, capsys):
    places = ["--results", str(folder), "--runs", str(folder / "runs"), "--device", "cpu", "--seeds", "2"]
    command = ["reproduce", "ladder", *only("Random"), *only("Normal"), *places]
    assert main([*command, "--dry-run", "--json"]) == 0
    planned = [one["cell"] for one in json.loads(capsys.readouterr().out)["missing"]]
    assert not any("Random" in label for label in planned), "width 8 suffices, so width 16 is not needed"
    assert sum("Normal 8x2" in label for label in planned) == 3, "two rates, and all seeds at the better one"
    assert main(command) == 0
    normal = [run for run in Records(folder).read() if run["config"]["trainable"] == "all"]
    assert len(normal) == 4
    assert normal[0]["coordinates"]["sensitivity"] == pytest.approx(4)
    assert "bag_of_symbols" in normal[0]["lazy_rule"]
    assert {one.lr for one in tried_rates(folder).values()} == set(ladder_cells.RATES["laptop"]["Normal"])
    printed = capsys.readouterr().out
    (row,) = [line for line in printed.splitlines() if line.startswith("parity")]
    assert "> 16 (best" in row
    assert "39 of 40 rungs were not run" in printed
    assert main([*command, "--dry-run"]) == 0
    assert "0 populations" in capsys.readouterr().out


def test_the_figure_shows_missing_as_missing(folder, tmp_path):
    image = tmp_path / "ladder.png"
    assert main(["figure", "ladder", "--scale", "laptop", "--results", str(folder), "--out", str(image)]) == 0
    assert image.stat().st_size > 10_000
    by_kind = {mark.kind: mark for mark in marks(evidence_of(Records(folder), "laptop"))}
    assert (by_kind["Random"].place, by_kind["Random"].span) == (0, (0, 0))
    assert by_kind["Normal"].state == "not finished"
    assert by_kind["Normal"].place == 1.5
    assert dataclasses.replace(by_kind["Normal"], widest_run=None, state="not run").place == NOT_RUN
    assert dataclasses.replace(by_kind["Normal"], state="not reached").place == len(WIDE)


def test_nothing_recorded_is_no_result(tmp_path):
    evidence = evidence_of(Records(tmp_path))
    assert steps_of(evidence) == []
    claims = EXPERIMENTS["ladder"].claims_of(evidence)
    assert len(claims) == len(RUNGS["paper"]) * len(KINDS)
    assert {claim.verdict for claim in claims} == {"not run"}
    assert all("not run" in row.values() for row in order([]).records())
