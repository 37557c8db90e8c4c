"""Curves of runs in the terminal, as a figure and as rows."""

import csv
import io
import json
import shutil

import pytest
from looking import line_of
from small_runs import copied, train_whole
from synthetic_runs import config_of, result_of, write_run

from icecore.cli import main
from icecore.cli.terminal_plot import Plot, plot_lines
from icecore.reporting.curves import RunCurves, band_of, draw_runs, is_logarithmic, series_of


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train_whole(tmp_path_factory)


def test_a_plot_by_hand():
    """Nine columns for steps 1 to 3: two are nearest to step 1, four to step 2, three to step 3."""
    lines = plot_lines(Plot("loss", [1, 2, 3], [0, 0, 0], [4, 2, 0], [4, 4, 0]), width=12, height=5)
    assert lines == [
        "loss",
        "4 ┤●●░░░░",
        "  │░░░░░░",
        "2 ┤░░●●●●",
        "  │░░░░░░",
        "0 ┤░░░░░░●●●",
        "   1       3",
    ]


def test_plots_of_several_numbers_may_share_their_steps():
    late = Plot("accuracy", [2, 3], [0, 1], [0, 1], [0, 1], span=(1, 3))
    assert plot_lines(late, width=12, height=3) == [
        "accuracy",
        "  1 ┤      ●●",
        "0.5 ┤",
        "  0 ┤   ●●●",
        "     1      3",
    ]


def test_the_axis_may_be_logarithmic_and_a_constant_has_a_middle():
    lines = plot_lines(Plot("x", [0, 1], [1e-4, 1.0], [1e-4, 1.0], [1e-4, 1.0], is_log=True), 30, 5)
    assert lines[0] == "x (logarithmic)"
    assert lines[1].split("┤")[0].strip() == "1"
    assert lines[3].split("┤")[0].strip() == "0.01"
    assert lines[5].split("┤")[0].strip() == "0.0001"
    flat = plot_lines(Plot("x", [0, 1], [2.0, 2.0], [2.0, 2.0], [2.0, 2.0]), 30, 5)
    assert "●" in flat[3]
    assert not is_logarithmic("accuracy", [0.001, 1.0])
    assert is_logarithmic("loss", [0.001, 1.0])
    assert not is_logarithmic("loss", [0.0, 1.0])


def test_probes_are_curves_too():
    rows = [
        {"step": 0, "probes": {"norm": [1.0, 3.0]}},
        {"step": 5, "loss": [2.0, 4.0], "probes": {"norm": [2.0, 6.0]}},
    ]
    found = series_of(rows, 2)
    assert found["norm"] == {"steps": [0, 5], "values": [[1.0, 2.0], [3.0, 6.0]], "every": 1}
    assert band_of(found["norm"]) == ([1.0, 2.0], [2.0, 4.0], [3.0, 6.0])


def test_the_figure_has_a_line_and_a_band_per_run():
    series = series_of([{"step": step, "loss": [1.0 / step, 2.0 / step]} for step in (1, 10, 100)], 2)
    figure = draw_runs([RunCurves("a", (0, 1), series), RunCurves("b", (0, 1), series)], ["loss"])
    (panel,) = figure.axes
    assert [line.get_label() for line in panel.lines] == ["a", "b"]
    assert line_of(panel, "a") == [(1, pytest.approx(1.5)), (10, pytest.approx(0.15)), (100, pytest.approx(0.015))]
    assert len(panel.collections) == 2
    assert panel.get_yscale() == "log"
    assert (
        draw_runs([RunCurves("a", (0,), series_of([{"step": 1, "loss": [1.0]}], 1))], ["loss"], False)
        .axes[0]
        .get_yscale()
        == "linear"
    )


def test_rows_are_the_metrics_of_the_run(whole, capsys):
    assert main(["curves", str(whole.path), "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    for name in ("loss", "accuracy"):
        expected = [
            (str(row["step"]), str(seed), value)
            for row in whole.metrics
            if row.get(name) is not None
            for seed, value in zip(whole.config.seeds, row[name], strict=True)
        ]
        found = [(row["step"], row["seed"], float(row["value"])) for row in rows if row["measure"] == name]
        assert sorted(found) == sorted(expected)


def test_curves_on_a_terminal_and_as_json(whole, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    assert main(["curves", str(whole.path)]) == 0
    out = capsys.readouterr().out
    assert "2 seeds" in out
    assert "●" in out
    assert max(map(len, out.splitlines())) <= 50
    assert main(["curves", str(whole.path), "--measure", "test_loss", "--json"]) == 0
    (curves,) = json.loads(capsys.readouterr().out.splitlines()[-1])["curves"]
    assert curves["test_loss"]["values"][1][-1] == pytest.approx(whole.result["loss"][1])


def test_a_run_that_is_training_has_curves_and_a_figure_is_written(whole, tmp_path, capsys, monkeypatch):
    run = copied(whole, tmp_path)
    (run / "result.json").unlink()
    write_run(tmp_path, config_of(16, 1e-3, 0), result_of(16, 0))
    monkeypatch.setattr("icecore.reporting.curves.MOST_DRAWN", 1)
    assert main(["curves", str(tmp_path), "--figure", str(tmp_path / "many.svg")]) == 2
    assert "a figure tells 1 runs apart, these are 2" in capsys.readouterr().err
    monkeypatch.undo()
    picture = tmp_path / "curves.svg"
    assert main(["curves", str(tmp_path), "--figure", str(picture)]) == 0
    assert "2 runs, loss and accuracy" in capsys.readouterr().out
    assert picture.read_text().startswith("<?xml")
    assert "needle, Random 16 " in picture.read_text()  # matplotlib writes texts as comments


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "there is no run at nowhere"),
        (["RUN", "--measure", "los"], "did you mean 'loss'"),
        (["RUN", "--figure", "curves.txt"], "cannot draw"),
        (["RUN", "--figure", "RUN/curves.png"], "holds only the run"),
        (["empty"], "logged nothing so far"),
        (["many", "--figure", "many.png"], "a figure has at most 24 panels, and 30 numbers were logged"),
    ],
)
def test_errors_are_one_line(arguments, words, whole, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = copied(whole, tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.json").write_text((run / "config.json").read_text())
    shutil.copytree(run, tmp_path / "many")
    seeds = len(whole.config.seeds)
    row = {"step": 1, **{f"probe {number}": [1.0] * seeds for number in range(30)}}
    (tmp_path / "many" / "metrics.jsonl").write_text(json.dumps(row))
    assert main(["curves", *(each.replace("RUN", str(run)) for each in arguments)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert len(error.splitlines()) == 1


def test_names_are_no_formulas_and_long_integers_no_numbers(whole, tmp_path, capsys):
    run = tmp_path / "a$\\frac{$b\x1b" / whole.path.name
    shutil.copytree(whole.path, run)
    with (run / "metrics.jsonl").open("a") as file:
        file.write(f'{{"step": 1000, "loss": [1{"0" * 400}, 1.0]}}\n')
        file.write('{"step": 1000, "loss": [1e308, -1e308]}\n')
        file.write(f'{{"step": 1{"0" * 400}, "loss": [1.0, 1.0]}}\n')
    config = json.loads((run / "config.json").read_text())
    config["task"]["name"] = "a$\\frac{$b"
    (run / "config.json").write_text(json.dumps(config))
    assert main(["curves", str(run), "--figure", str(tmp_path / "curves.svg")]) == 0
    assert capsys.readouterr().out.startswith("1 run")
    assert "$" in (tmp_path / "curves.svg").read_text()
    assert main(["curves", str(run), "--csv"]) == 0
    assert ",1000," not in capsys.readouterr().out
