"""Tables of results in README and docs are those of the records."""

import itertools
import json
import re
import sys
from pathlib import Path

import pytest
from made_up import cells_at, record_of

from icecore.errors import InputError
from icecore.paper import documents
from icecore.paper.directions import row_of
from icecore.paper.documents import filled
from icecore.reporting.bench_tables import bench_table
from icecore.store import Records
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
    assert "results of directions" in (ROOT / "docs/inside.md").read_text()
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


def test_an_experiment_at_laptop_scale_shows_its_own_tables(tmp_path):
    mark = "<!-- results of transplant at laptop scale, made by `make readme` -->{}<!-- end of results -->"
    assert "Nothing is measured so far at laptop scale." in filled(mark.format(""), tmp_path)
    cell = next(iter(cells_at("transplant", "laptop")))
    Records(tmp_path / "laptop").append([record_of(cell, seed, 0.5, "fp32") for seed in (0, 1, 2)])
    text = filled(mark.format("\nold\n"), tmp_path)
    assert "old" not in text
    assert "3 seeds each; 1 of the" in text
    assert "50.0" in text
    assert "body trained on" in text
    assert filled(text, tmp_path) == text


def test_a_long_table_is_named_in_a_page_and_not_shown(tmp_path, monkeypatch):
    mark = "<!-- results of transplant at laptop scale, made by `make readme` --><!-- end of results -->"
    cell = next(iter(cells_at("transplant", "laptop")))
    Records(tmp_path / "laptop").append([record_of(cell, seed, 0.5, "fp32") for seed in (0, 1, 2)])
    monkeypatch.setattr(documents, "MOST_ROWS", 2)
    text = filled(mark, tmp_path)
    assert "body trained on" in text
    assert "Predictions about transplants, by medians: `icecore claims transplant --scale laptop" in text
    assert "| prediction |" not in text


def test_a_document_with_an_error_is_left_as_it_was(tmp_path, monkeypatch, capsys):
    document = tmp_path / "a.md"
    document.write_text("<!-- results of tabel1, made by `make readme` --><!-- end of results -->")
    monkeypatch.setattr(sys, "argv", ["documents", str(document)])
    with pytest.raises(SystemExit) as caught:
        documents.main()
    assert caught.value.code == 2
    assert "error: " in (error := capsys.readouterr().err)
    assert "a.md" in error
    assert len(error.splitlines()) == 1
    assert document.read_text() == "<!-- results of tabel1, made by `make readme` --><!-- end of results -->"


def test_speed_is_in_three_digits_and_memory_where_there_is_some(tmp_path):
    (tmp_path / "bench").mkdir()
    row = {"task": "needle", "model": "transformer", "width": 16, "trainable": "all", "seeds": 2, "peak_gb": 2.55}
    times = {
        "ms_per_seed_step": 0.12345,
        "lower_bound_ms": 0.0401,
        "reference_ms": 77.16,
        "huggingface_ms": 1234.5,
        "gflop": 2,
    }
    lstm = {"model": "lstm", "width": 1024, "seeds": 1}
    rows = [row | times, row | times | lstm]
    (tmp_path / "bench/a.json").write_text(json.dumps({"rows": rows}))
    text = "<!-- results of bench/a.json, made by `make readme` --><!-- end of results -->"
    made = filled(text, tmp_path).splitlines()
    assert made[2] == "|  | ours, ms | lower bound, ms | share | reference, ms | user's loop, ms | GFLOP | peak GB |"
    assert (
        made[4] == "| needle, Normal 16, 2 seeds | 0.123 | 0.0401 | 32% | 77.2 (625x) | 1,234 (10,000x) | 2.0 | 2.5 |"
    )
    assert made[5].startswith("| needle, LSTM 1024 | 0.123 |")
    (tmp_path / "bench/a.json").write_text(json.dumps({"rows": [rows[0] | {"peak_gb": None}, rows[1]]}))
    assert filled(text, tmp_path).splitlines()[2].endswith("| GFLOP |")


def test_benches_of_language_and_of_precision_have_tables_of_their_own():
    speed = {
        "ms_per_step": 2.8259,
        "tokens_per_second": 3_623_612.7,
        "share_of_product_rate": 0.4249,
        "lower_bound_ms": 1.249,
    }
    language = {"width": 512, "layers": 4, "trainable": "all", **speed, "reference_ms": 392.4, "huggingface_ms": 60.45}
    measured, without_memory = bench_table([language | {"peak_gb": 1.78}, language | {"peak_gb": None}]).rows
    assert measured[:4] == ("Normal 512, 4 layers", "2.83", "3,624,000", "42 %")
    assert measured[4:] == ("1.25", "392", "60.5", "1.8")
    assert without_memory[-1] == "-"
    row = {"task": "needle", "width": 16, "trainable": "all", "seeds": 3, "steps": 1000, "precision": "tf32"}
    trained = row | {"fp32_accuracy": [0.9, 0.5, 0.6], "accuracy": [0.9, 0.7, 0.5]}
    random = row | {"trainable": "embeddings", "seeds": 1, "fp32_accuracy": [0.1], "accuracy": [0.1002]}
    table = bench_table([trained, random])
    rows = table.rows
    assert table.headings == ("", "steps", "fp32", "tf32", "largest difference per seed")
    assert rows[0] == ("needle, Random 16", "1,000", "10.00", "10.02", "0.02")
    assert rows[1][1:4] == ("1,000", "60.00 (50.00 to 90.00)", "70.00 (50.00 to 90.00)")
    assert rows[1][4] == "20.00", "of a seed, not of the medians"


@pytest.mark.parametrize("task", ["modular-addition", "needle", "decimal-addition", "parentheses", "memorization"])
def test_baselines_in_documents_are_those_of_the_tasks(task):
    text = (ROOT / "docs/tasks.md").read_text()
    rows = text.partition("| task | baseline |")[2].partition("\n\n")[0].splitlines()[2:]
    begin = next(number for number, row in enumerate(rows) if row.startswith(f"| {task} |"))
    own = [rows[begin], *itertools.takewhile(lambda row: row.startswith("| |"), rows[begin + 1 :])]
    printed = {name.replace(" ", "_"): value for name, value in (re.split(r" *\| *", row)[2:4] for row in own)}
    baselines = make_task(task).baselines()
    assert printed.keys() == baselines.keys()
    for name, value in printed.items():
        assert f"{baselines[name]:.{len(value) - 1}f}" == f"0{value}"
    (row,) = re.findall(rf"^\| `{task}` \|.*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    for value in re.findall(r"\.\d+", row.rpartition(" | ")[2]):
        assert any(f"{baseline:.{len(value) - 1}f}" == f"0{value}" for baseline in baselines.values())


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
    row = row_of({"analyses": {"causal": {"curves": curves}}})
    assert row[:6] == ["1.0", "2.0", "3.0", "4.0", "5.0", "7.0"], "10, 20, 50, 100, 200 and all"
    assert row[6:9] == ["15.0", "25.0", "35.0"], "200 neurons, random ones, and of the untrained"
    assert row[9:] == ["41.0", "51.0"], "without 10"
