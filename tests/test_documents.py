"""Results in README and docs: tables between marks, and numbers in sentences, are those of the records."""

import itertools
import json
import re
import sys
from pathlib import Path

import pytest
from made_up import record_of

from icecore.errors import InputError
from icecore.reporting import documents
from icecore.reporting.documents import filled
from icecore.reporting.quotes import Quotes
from icecore.reporting.stored_tables import bench_grid_of, subspace_row
from icecore.store import Records
from icecore.sweeps.cells import Cell
from icecore.sweeps.entries import ENTRIES
from icecore.tasks import make_task

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_results_in_documents_are_those_of_the_records(document):
    text = document.read_text()
    assert filled(text, ROOT / "results") == text, "run make readme"


def test_what_is_measured_is_quoted():
    text = (ROOT / "docs/results.md").read_text()
    assert text.count("<!-- results of ") >= 8
    assert text.count(" of table1: ") >= 10
    assert "results of subspaces" in (ROOT / "docs/inside.md").read_text()
    assert "results of bench/h200.json" in (ROOT / "docs/engine.md").read_text()


@pytest.mark.parametrize(
    ("text", "is_filled"),
    [
        ("a\n<!-- results of table9, made by `make readme` -->\nold\n<!-- end of results -->\nz\n", True),
        ("a\n<!-- results of table1 by preset, made by `make readme` --><!-- end of results -->\nz\n", True),
        ("a\n<!-- results of table9, made by `make readme` -->\nold\n", False),
        ("a\n<!-- results of table99, made by `make readme` -->\n<!-- end of results -->\n", False),
    ],
)
def test_documents_are_filled_between_their_marks(tmp_path, text, is_filled):
    if not is_filled:
        with pytest.raises(InputError, match="table9"):
            filled(text, tmp_path)
        return
    once = filled(text, tmp_path)
    assert once.startswith("a\n<!-- results of table")
    assert once.endswith("<!-- end of results -->\nz\n")
    assert "old" not in once
    assert filled(once, tmp_path) == once


def cell_of(label: str, preset: str = "released") -> Cell:
    (cell,) = [cell for cell in ENTRIES["table1"].at("paper", preset) if cell.label == label]
    return cell


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """Made up: two cells with several seeds, one of them with another preset and precision too."""
    folder = tmp_path_factory.mktemp("results")
    first, second = cell_of("parentheses, Normal 1024"), cell_of("needle, Normal 1024")
    other = cell_of("parentheses, Normal 1024", "readme")
    made = [
        *(record_of(first, seed, accuracy) for seed, accuracy in enumerate((0.9, 0.8, 0.825))),
        *(record_of(first, seed, accuracy, "tf32") for seed, accuracy in enumerate((0.71, 0.7))),
        *(record_of(other, seed, accuracy) for seed, accuracy in enumerate((0.0456,))),
        *(record_of(second, seed, value) | {"seeds_at_once": 2} for seed, value in enumerate((1.0, 0.999))),
    ]
    Records(folder).append(made)
    (folder / "a.json").write_text(json.dumps({"rows": [{"ms.a": 0.1234}, 7, 12345], "name": "x"}))
    return folder


@pytest.fixture(scope="module")
def quotes(results) -> Quotes:
    return Quotes(results)


CELL, BOTH = "parentheses, Normal 1024", "parentheses, Normal 1024 | needle, Normal 1024"


@pytest.mark.parametrize(
    ("before", "comment", "after"),
    [
        ("has 0.0", f"table1: {CELL}", "has 82.5"),
        ("has 0", f"table1: {CELL}", "has 82"),
        ("has .0", f"table1 with readme: {CELL}", "has 4.6"),
        ("**0.00", f"table1 in tf32: {CELL}", "**70.50"),
        ("at 1, 2.0 and 3.0", f"seeds of table1: {CELL}", "at 80.0, 82.5 and 90.0"),
        ("1.0, 2.0, 3.0 and 4.0", f"seeds of table1 in tf32: {CELL}", "70.0 and 71.0"),
        ("3.0", f"seeds of table1 with readme: {CELL}", "4.6"),
        ("(in table 1, 16.0", f"lowest of table1: {BOTH}", "(in table 1, 80.0"),
        ("1.0 and 16.0", f"highest of table1: {BOTH}", "1.0 and 100.0"),
        ("1.00", f"mean of table1: {CELL}", "84.17"),
        ("in two", f"number of table1: {CELL}", "in three"),
        ("Two", f"number of table1: {BOTH}", "Five"),
        ("1.0", f"paper of table1: {CELL}", "92.3"),
        ("1", f"floor of table1: {CELL}", "20"),
        ("1.0", f"ours of table1: {CELL}", "82.5"),
        ("1", "reproduced of table1", "1"),
        ("1", "differ of table1", "1"),
        ("1", "claims of table1", "20"),
        ("0", "below of table1", "1"),  # 82.5 for 92.3; 99.95 is shown as the paper's 100.0
        ("1", "above of table1", "0"),
        ("1", "runs of table1", "5"),
        ("1", "runs of table1 with readme", "1"),
        ("of all 1", "runs of all", "of all 8"),
        ("1", "reproduced of table1 with readme", "0"),
        ("1.000", "minutes of table1", "0.067"),
        ("1.000", "minutes of all", "0.117"),
        (".000", "a.json: rows/0/ms.a", ".123"),
        ("0.00", "a.json: rows/0/ms.a", "0.12"),
        ("0.0 %", "a.json: name", None),
        ("has about", f"table1: {CELL}", None),
        ("1.0", "percent of a.json: rows/0/ms.a", "12.3"),
        ("1", "a.json: rows/1", "7"),
        ("1", "a.json: rows/2", "12,345"),
    ],
)
def test_a_number_before_a_comment_is_what_the_comment_names(quotes, before, comment, after):
    if after is None:
        with pytest.raises(InputError, match="no number before it"):
            quotes.filled(f"{before}<!-- {comment} -->")
        return
    text = quotes.filled(f"{before}<!-- {comment} --> %.")
    assert text == f"{after}<!-- {comment} --> %."
    assert quotes.filled(text) == text


def test_more_seeds_than_ten_are_a_number_in_digits(tmp_path):
    Records(tmp_path).append(record_of(cell_of("needle, Normal 1024"), seed, 0.9) for seed in range(11))
    comment = "<!-- number of table1: needle, Normal 1024 -->"
    assert Quotes(tmp_path).filled(f"ten{comment}") == f"11{comment}"


@pytest.mark.parametrize("comment", ["<!-- end of results -->", "<!-- a note -->", "1<!-- a note: on this -->"])
def test_other_comments_stay(quotes, comment):
    assert quotes.filled(f"a {comment} z") == f"a {comment} z"


@pytest.mark.parametrize(
    ("comment", "error"),
    [
        ("table1: parenthesis, Normal 1024", "did you mean 'parentheses, Normal 1024'"),
        (f"lowest of table1: {CELL} | needel, Normal 1024", "did you mean 'needle, Normal 1024'"),
        ("tabel1: needle, Normal 1024", "did you mean 'table1'"),
        ("medain of table1: needle, Normal 1024", "did you mean 'median'"),
        ("table1: needle, Random 16", "nothing is recorded"),
        ("table1 in fp32: needle, Normal 1024", "nothing is recorded"),
        (f"table1 with readme in tf32: {CELL}", "nothing is recorded"),
        ("whole of table1: needle, Normal 1024", "no such number"),
        (f"paper of table1: {BOTH}", "paper is of one cell, not of 2"),
        ("a.json: rows/1 | rows/0", "is of one cell"),
        ("b.json: rows", "there is no file"),
        ("a.json: rows/9", "has no '9' there"),
        ("a.json: name", "has no number there"),
        ("runs of tabel1", "did you mean 'table1'"),
        ("table1 with redme: needle, Normal 1024", "did you mean 'readme'"),
        ("table1 in bf61: needle, Normal 1024", "did you mean 'bf16'"),
        ("lowest of a.json: rows/1", "unknown number 'lowest'"),
        ("claims of fig2", "unknown table or figure 'fig2'"),
    ],
)
def test_a_comment_that_names_nothing_is_an_error_that_shows_it(quotes, comment, error):
    with pytest.raises(InputError) as caught:
        quotes.filled(f"has 1.0<!-- {comment} -->")
    assert comment in str(caught.value)
    assert error in str(caught.value)


def test_a_document_with_an_error_is_left_as_it_was(tmp_path, monkeypatch, capsys):
    document = tmp_path / "a.md"
    document.write_text("1<!-- tabel1: needle -->")
    monkeypatch.setattr(sys, "argv", ["documents", str(document)])
    with pytest.raises(SystemExit) as caught:
        documents.main()
    assert caught.value.code == 2
    assert "error: " in (error := capsys.readouterr().err)
    assert "a.md" in error
    assert len(error.splitlines()) == 1
    assert document.read_text() == "1<!-- tabel1: needle -->"


def test_speed_is_in_three_digits_and_memory_where_there_is_some(tmp_path):
    (tmp_path / "bench").mkdir()
    row = {"task": "needle", "model": "transformer", "width": 16, "trainable": "all", "seeds": 2, "peak_gb": 2.55}
    times = {"ms_per_seed_step": 0.12345, "floor_ms": 4.001, "plain_ms": 77.16, "huggingface_ms": 1234.5}
    lstm = {"model": "lstm", "width": 1024, "seeds": 1}
    rows = [row | times, row | times | lstm]
    (tmp_path / "bench/a.json").write_text(json.dumps({"rows": rows}))
    text = "<!-- results of bench/a.json, made by `make readme` --><!-- end of results -->"
    made = filled(text, tmp_path).splitlines()
    assert made[2] == "|  | ours | floor | plain twin | user's loop | peak GB |"
    assert made[4] == "| needle, Normal 16, 2 seeds | 0.123 | 4 | 77.2 | 1,234 | 2.5 |"
    assert made[5].startswith("| needle, LSTM 1024 | 0.123 |")
    (tmp_path / "bench/a.json").write_text(json.dumps({"rows": [rows[0] | {"peak_gb": None}, rows[1]]}))
    assert filled(text, tmp_path).splitlines()[2] == "|  | ours | floor | plain twin | user's loop |"


def test_benches_of_language_and_of_precision_have_tables_of_their_own():
    speed = {
        "ms_per_step": 2.8259,
        "tokens_per_second": 3_623_612.7,
        "share_of_product_rate": 0.4249,
        "floor_ms": 1.249,
    }
    language = {"width": 512, "layers": 4, "trainable": "all", **speed, "plain_ms": 392.4, "huggingface_ms": 60.45}
    _, (measured, without_memory) = bench_grid_of([language | {"peak_gb": 1.78}, language | {"peak_gb": None}])
    assert measured[:4] == ("Normal 512, 4 layers", "2.83", "3,624,000", "42 %")
    assert measured[4:] == ("1.25", "392", "60.5", "1.8")
    assert without_memory[-1] == "-"
    row = {"task": "needle", "width": 16, "trainable": "all", "seeds": 3, "steps": 1000, "precision": "tf32"}
    trained = row | {"fp32_accuracy": [0.9, 0.5, 0.6], "accuracy": [0.9, 0.7, 0.5]}
    random = row | {"trainable": "embeddings", "seeds": 1, "fp32_accuracy": [0.1], "accuracy": [0.1002]}
    headings, rows = bench_grid_of([trained, random])
    assert headings == ("", "steps", "fp32", "tf32", "largest difference of a seed")
    assert rows[0] == ("needle, Random 16", "1,000", "10.00", "10.02", "0.02")
    assert rows[1][1:4] == ("1,000", "60.00 (50.00 to 90.00)", "70.00 (50.00 to 90.00)")
    assert rows[1][4] == "20.00", "of a seed, not of the medians"


@pytest.mark.parametrize("task", ["modular-addition", "needle", "decimal-addition", "parentheses", "memorization"])
def test_floors_in_documents_are_those_of_the_tasks(task):
    text = (ROOT / "docs/tasks.md").read_text()
    rows = text.partition("| task | floor |")[2].partition("\n\n")[0].splitlines()[2:]
    begin = next(number for number, row in enumerate(rows) if row.startswith(f"| {task} |"))
    own = [rows[begin], *itertools.takewhile(lambda row: row.startswith("| |"), rows[begin + 1 :])]
    printed = {name.replace(" ", "_"): value for name, value in (re.split(r" *\| *", row)[2:4] for row in own)}
    floors = make_task(task).floors()
    assert printed.keys() == floors.keys()
    for name, value in printed.items():
        assert f"{floors[name]:.{len(value) - 1}f}" == f"0{value}"
    (row,) = re.findall(rf"^\| `{task}` \|.*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    for value in re.findall(r"\.\d+", row.rpartition(" | ")[2]):
        assert any(f"{floor:.{len(value) - 1}f}" == f"0{value}" for floor in floors.values())


def test_accuracy_in_few_directions_is_read_at_their_number():
    kinds = [("keep", "directions"), ("keep", "neurons"), ("keep", "random"), ("keep", "untrained")]
    kinds += [("remove", "directions"), ("remove", "random")]
    curves = [
        {
            "mode": mode,
            "basis": basis,
            "counts": [1, 10, 20, 50, 100, 200, 512, 1024],
            "accuracy": [kind / 10 + place / 100 for place in range(8)],
        }
        for kind, (mode, basis) in enumerate(kinds)
    ]
    row = subspace_row({"analyses": {"causal": {"curves": curves}}})
    assert row[:6] == ["1.0", "2.0", "3.0", "4.0", "5.0", "7.0"], "10, 20, 50, 100, 200 and all"
    assert row[6:9] == ["15.0", "25.0", "35.0"], "200 neurons, random ones, and of the untrained"
    assert row[9:] == ["41.0", "51.0"], "without 10"
