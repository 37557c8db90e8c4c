"""Claims laid out: as the paper prints them, by preset, and in a summary."""

import json

from made_up import cells_at, record_of, recorded

from icecore.cli import main
from icecore.paper import claims_of
from icecore.paper.grid import grid_of
from icecore.store import Records


def test_the_grid_is_the_papers_layout(tmp_path, capsys):
    recorded(tmp_path, [cell for cell in cells_at("table2") if "needle" in cell.label])
    assert main(["claims", "table2", "--grid", "--markdown", "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "|  | U only | E only | E_token & U | baseline |"
    assert "| needle | 1.0 (17.7) | 11.0 (100.0) | 21.0 (98.5) | 20.0 |" in out
    assert "| modular-addition (train) | - (47.9) | - (68.3) | - (100.0) |  |" in out


def test_every_table_and_figure_has_a_grid(tmp_path, capsys):
    cells = [*cells_at("fig7"), *cells_at("init")]
    recorded(tmp_path, list({cell.setting: cell for cell in cells if "needle" in cell.label}.values()), seeds=2)
    assert main(["claims", "all", "--grid", "--markdown", "--results", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "| width | 16 | 32 | 64 | 128 | 256 | 512 | 1024 | baseline |" in lines
    assert any(line.startswith("| needle, Random, matched, lr x5 |") for line in lines)
    assert "|  | PC Emb | PC L1 | PC L2 | neuron Emb | neuron L1 | neuron L2 |" in lines


def test_presets_stand_below_each_other_where_they_differ(tmp_path, capsys):
    for preset in ("released", "unfiltered", "paper"):
        chosen = [cell for cell in cells_at("table1", "paper", preset) if cell.label.endswith("Random 16")]
        recorded(tmp_path / preset, chosen, seeds=2)
        assert main(["results", "merge", str(tmp_path / preset), "--results", str(tmp_path)]) == 0
    capsys.readouterr()
    at = ["--results", str(tmp_path)]
    assert main(["claims", "table1", "--by-preset", "--json", *at]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["table1"]
    rows = [row[0] for row in found["rows"]]
    assert [row for row in rows if row.startswith("parentheses")] == [
        "parentheses, released",
        "parentheses, unfiltered",
        "parentheses, paper",
    ]
    assert "modular-addition, released" in rows
    assert "modular-addition, unfiltered" not in rows, "its settings are the scripts'"
    assert main(["claims", "--by-preset", "--markdown", *at]) == 0
    assert "| parentheses, unfiltered |" in capsys.readouterr().out
    assert main(["claims", "fig4", "--by-preset", *at]) == 2
    assert "fig4 has no rows by preset" in capsys.readouterr().err
    for clash in (["--by-preset", "--grid"], ["--summary", "--grid"], ["--by-preset", "--preset", "paper"]):
        assert main(["claims", "table1", *clash, *at]) == 2
        assert "choose one of them" in (error := capsys.readouterr().err) or "drop --preset" in error


def test_whole_answers_have_a_row_of_their_own(tmp_path, capsys):
    (cell,) = [cell for cell in cells_at("table1") if cell.label == "decimal-addition, Random 16"]
    Records(tmp_path).append(record_of(cell, seed, 0.5) | {"exact_match": 0.25} for seed in range(2))
    assert main(["claims", "table1", "--grid", "--markdown", "--results", str(tmp_path)]) == 0
    assert "| decimal-addition (exact match) |  | 25.0 |  |  |  |  |" in capsys.readouterr().out.splitlines()


def test_the_summary_counts_verdicts_by_table(tmp_path, capsys):
    cells = cells_at("table1")[:3]  # modular addition: 100.0, 1.3 and 100.0 in the paper
    accuracies = zip(cells, (0.999, 0.5, 0.995), strict=True)
    Records(tmp_path).append(record_of(cell, seed, accuracy) for cell, accuracy in accuracies for seed in range(5))
    assert (
        main(["claims", "table1", "fig7", "--summary", "--preset", "released", "--json", "--results", str(tmp_path)])
        == 0
    )
    table1, fig7 = json.loads(capsys.readouterr().out.splitlines()[-1])["summary"]
    assert {key: table1[key] for key in ("reproduced", "differ", "not run", "seeds")} == {
        "reproduced": "2",
        "differ": "1",
        "not run": "17",
        "seeds": "5",
    }
    assert table1["minutes"] == "0.2", "fifteen seconds are .25 minutes, and printed to a tenth"
    assert (fig7["no number"], fig7["not run"]) == ("3", "53")


def test_a_row_of_several_baselines_has_none_in_its_column(tmp_path):
    for cell in cells_at("table2"):
        baseline = 0.3 if cell.label == "needle, E only" else 0.2
        Records(tmp_path).append([record_of(cell, 0, 0.5) | {"baselines": {"a rule": baseline}}])
    table = grid_of(claims_of(["table2"], "paper", "released", Records(tmp_path)))
    baselines = {row[0]: row[-1] for row in table.rows}
    assert table.headings[-1] == "baseline"
    assert (baselines["needle"], baselines["parentheses"]) == ("", "20.0")
