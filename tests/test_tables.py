"""The one table type: the same cells in every format."""

import csv
import io

import pytest
from looking import cells_of

from icecore.cli import main
from icecore.cli.output import Format, print_table
from icecore.reporting.table import Table

TABLE = Table("A title", ("task", "ours", "ours"), [("a | b", "1", "2"), ('say "x", y', "", "3")], left=("task",))


def test_markdown_keeps_bars_within_their_cells():
    assert TABLE.markdown().splitlines() == [
        "| task | ours | ours |",
        "| --- | --- | --- |",
        "| a \\| b | 1 | 2 |",
        '| say "x", y |  | 3 |',
    ]


def test_csv_is_read_back_as_it_was():
    assert [tuple(row) for row in csv.reader(io.StringIO(TABLE.csv()))] == [TABLE.headings, *TABLE.rows]


def test_a_terminal_has_the_title_the_cells_and_the_notes(capsys):
    print_table(Table(TABLE.title, TABLE.headings, TABLE.rows[1:], TABLE.left, ("a note",)), Format.terminal)
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "A title"
    assert out.splitlines()[-1] == "a note"
    assert cells_of(out) == [["task", "ours", "ours"], ['say "x", y', "", "3"]]


def test_columns_are_justified_also_where_letters_take_two_columns(capsys):
    rows = [("a", "1", "10"), ("日本", "100", "1")]
    print_table(Table("", ("task", "ours", "theirs"), rows, left=("task",)))
    assert capsys.readouterr().out.splitlines()[1:] == [
        "task ┃ ours ┃ theirs",
        "━━━━━╇━━━━━━╇━━━━━━━",
        "a    │    1 │     10",
        "日本 │  100 │      1",
    ]


def test_prose_takes_the_room_that_is_left(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    rows = [("needle", "one two three four five six seven eight"), ("parentheses", "short")]
    print_table(Table("", ("task", "note"), rows, left=("task", "note"), wraps=("note",)))
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()[3:]] == [
        "needle      │ one two three four five",
        "            │ six seven eight",
        "parentheses │ short",
    ]


@pytest.mark.parametrize("command", [["claims", "table2", "--grid"], ["claims", "--summary"], ["claims", "table9"]])
def test_every_format_has_the_same_cells(command, tmp_path, capsys):
    (tmp_path / "runs.jsonl").touch()
    at = ["--results", str(tmp_path)]
    (tmp_path / "runs.jsonl").touch()
    assert main([*command, *at, "--csv"]) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert main([*command, *at, "--markdown"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert [[cell.strip() for cell in line[1:-1].split(" | ")] for line in (lines[0], *lines[2:])] == [
        [cell.strip() for cell in row] for row in rows
    ]
    assert main([*command, *at, "--csv", "--markdown"]) == 2
    assert "choose one" in capsys.readouterr().err


WIDE = Table(
    "Runs",
    ("run", "accuracy", "device", "settings"),
    [("needle/0123456789ab", "0.123 to 0.456", "cpu", "--init matched, " * 4), ("needle/fedcba987654", "", "", "")],
    left=("run", "settings"),
    wraps=("settings",),
    secondary=("device",),
)


def test_on_a_narrow_terminal_columns_move_below_their_row_and_nothing_is_cut(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    print_table(WIDE)
    out = capsys.readouterr().out
    assert all(len(line) <= 40 for line in out.splitlines())
    assert cells_of(out)[1] == ["needle/0123456789ab", "0.123 to 0.456"]
    below = out.splitlines()[4:]
    assert below[0].startswith("    device cpu; --init matched")
    assert " ".join(out.split()).count("--init matched") == 4
    assert below[-1].startswith("needle/fedcba987654"), "no empty line below it"


def test_a_pipe_keeps_the_columns(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(WIDE)
    assert cells_of(capsys.readouterr().out)[0] == list(WIDE.headings)


def test_claims_and_show_fit_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in (["claims"], ["claims", "table1", "--grid"], ["claims", "--summary"], ["show", "results/weights"]):
        assert main(command) == 0
        out = capsys.readouterr().out
        assert [line for line in out.splitlines() if len(line) > 80] == []
        assert "…" not in out


def test_a_table_of_numbers_continues_below_with_its_first_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    rows = [("Random", *(f"{width}.0 (1 to 2)" for width in (4, 8, 16)))]
    print_table(Table("title", ("width", "4", "8", "16"), rows, left=("width",)))
    out = capsys.readouterr().out
    assert all(len(line) <= 30 for line in out.splitlines())
    parts = [["width", "4"], ["Random", "4.0 (1 to 2)"], ["width", "8"], ["Random", "8.0 (1 to 2)"]]
    assert cells_of(out) == [*parts, ["width", "16"], ["Random", "16.0 (1 to 2)"]]
