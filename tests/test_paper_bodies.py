"""`icecore reproduce bodies`: its cells, the choice of rates, its tables and its predictions."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from icecore.cli import main
from icecore.paper import EXPERIMENTS
from icecore.paper.bodies import BODIES, TRAINED, WIDTHS, order
from icecore.paper.bodies_predictions import PREDICTED_WIDTH, SOLVES
from icecore.paper.scales import FOUR
from icecore.store.rates import tried_rates
from icecore.sweeps import laptop

ONLY = ["--only", "parentheses, Random 64, retnet, matched"]


@pytest.mark.parametrize("scale", ["paper", "laptop"])
def test_cells_are_all_bodies_and_no_two_are_the_same_run(scale: str):
    cells = EXPERIMENTS["bodies"].at(scale, "released")
    arms = 2 * len(BODIES) - 2  # two initializations, but for LSTM and GRU
    own = [cell for cell in cells if cell.name.task in FOUR]
    assert len(own) == len(FOUR) * len(TRAINED) * len(WIDTHS[scale]) * arms
    assert len(cells) == len(own) + len(BODIES) + len(BODIES) + 1  # memorization; parity, with negative eigenvalues too
    assert len(order(scale)) == 2 * len(WIDTHS[scale]) * len(TRAINED)
    few = [cell for cell in cells if cell.name.task == "parentheses" and cell.name.width == WIDTHS[scale][0]]
    assert len({cell.made.setting for cell in few}) == len(few)
    assert {cell.made.model.name for cell in few} >= {"transformer", "llama", "mamba", "deltanet", "gru", "lstm"}


@pytest.mark.parametrize("scale", ["paper", "laptop"])
def test_the_most_telling_cells_come_first_and_have_predictions(scale: str):
    cells = EXPERIMENTS["bodies"].at(scale, "released")
    first = [cell.name for cell in cells[: len(FOUR) * len(BODIES)]]
    assert {(name.kind, name.width) for name in first} == {("Random", PREDICTED_WIDTH[scale])}
    assert set(SOLVES[scale]) == set(BODIES) - {"transformer"}
    assert {name.variant.rpartition(", ")[0] for name in first} == set(BODIES)


def test_at_laptop_scale_each_cell_chooses_its_rate():
    rates = {
        (cell.name.kind, cell.made.rates)
        for cell in EXPERIMENTS["bodies"].at("laptop", "released")
        if cell.name.task == "needle"
    }
    assert rates == {("Random", (6e-3, 2e-2)), ("U only", (6e-3, 2e-2)), ("Normal", (1e-3, 5e-3))}


def test_every_body_computes_in_the_precision_of_a_gpu():
    cells = EXPERIMENTS["bodies"].at("paper", "released")
    assert all("bf16" in cell.made.model.engine.precisions for cell in cells if cell.name.width == 64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Results of one cell, trained for some steps at the better of two rates."""
    folder = tmp_path_factory.mktemp("bodies")
    recipes = {recipe.task.name: recipe for recipe in (*laptop.RECIPES, *laptop.OTHER_RECIPES)}
    short = laptop.Training(30, 1e-2, warmup_steps=5)
    recipes["parentheses"] = dataclasses.replace(recipes["parentheses"], batch=32, random=short)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(laptop, "recipe_for", recipes.__getitem__)
        assert main(["reproduce", "bodies", *ONLY, "--seeds", "2", "--lr", "1e-9,1e-2", *places(folder)]) == 0
        yield folder


def places(folder: Path) -> list[str]:
    return ["--results", str(folder), "--runs", str(folder / "runs"), "--device", "cpu"]


def test_a_cell_takes_its_best_rate_and_keeps_it(folder, capsys):
    tried = tried_rates(folder).values()
    assert sorted(one.lr for one in tried) == [1e-9, 1e-2]
    assert all(one.seeds == [0] for one in tried)
    records = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    assert [record["seed"] for record in records] == [0, 1]
    assert {record["config"]["optimization"]["lr"] for record in records} == {1e-2}
    assert main(["reproduce", "bodies", *ONLY, "--seeds", "2", "--lr", "1e-9,1e-2", "--dry-run", *places(folder)]) == 0
    assert "0 populations" in capsys.readouterr().out


def test_the_tables_show_what_was_run(folder, capsys):
    assert main(["claims", "bodies", "--scale", "laptop", "--results", str(folder), "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)["tables"]["bodies"]
    (baseline, row), guesses, theories = (table["rows"] for table in tables)
    assert baseline[""] == "best baseline"
    assert (row[""], row["seeds"], row["rate"], row["needle"]) == ("retnet, matched", "2", "0.01", "-")
    records = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    low, high = sorted(100 * record["accuracy"] for record in records)
    assert row["parentheses"] == f"{(low + high) / 2:.1f} ({low:.1f} to {high:.1f})"
    told = {(row[""], task): row[task] for row in guesses for task in FOUR}
    ours = told.pop(("retnet", "parentheses"))
    assert ours == f"yes, {(low + high) / 2:.1f}: {'held' if low + high >= 180 else 'failed'}"
    assert all(text.endswith("not run") for text in told.values())
    assert {row[""] for row in theories} == {"not run"}


def test_the_figure_has_a_line_per_body(folder, capsys, tmp_path):
    command = ["figure", "bodies", "--scale", "laptop", "--results", str(folder), "--out", str(tmp_path / "bodies.png")]
    assert main([*command, "--json"]) == 0
    (point,) = json.loads(capsys.readouterr().out)["points"]
    assert (point["task"], point["line"], len(point["values"])) == ("parentheses", "Random, retnet", 2)


def test_rates_are_for_experiments_that_choose_them(capsys):
    assert main(["reproduce", "table1", "bodies", "--lr", "1e-3,5e-3"]) == 2
    said = capsys.readouterr().err
    assert (
        "--lr chooses rates for bodies, ladder, transplant, transplant-language, rank; table1 has the paper's" in said
    )
