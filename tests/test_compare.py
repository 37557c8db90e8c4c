"""`icecore compare`: what trains against what trains, over widths and bodies, on a task of one's own."""

import contextlib
import json
from pathlib import Path

import pytest
from made_up import record_of
from small_sweep import CELLS

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.models import MODELS, Transformer
from icecore.reporting.comparison import points_of, table_of
from icecore.reporting.figures.widths import Point, styles_of
from icecore.store import Records
from icecore.sweeps.comparison import comparison
from icecore.tasks import make_task

EXAMPLES = Path(__file__).parents[1] / "examples"
REVERSAL, GRU = f"{EXAMPLES / 'reversal.py'}:Reversal", f"{EXAMPLES / 'own_body.py'}:GRU"
SHORT = ["--length", "6", "--steps", "4", "--batch", "8", "--warmup-steps", "1", "--seeds", "2", "--device", "cpu"]


@pytest.fixture(autouse=True)
def registered():
    """The example registers its body, which is taken out again."""
    before = dict(MODELS)
    yield
    MODELS.clear()
    MODELS.update(before)


def points(capsys, *flags: str) -> list[dict]:
    assert main(["compare", REVERSAL, *SHORT, *flags, "--json"]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])["points"]


def test_a_comparison_of_a_task_of_ones_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first = points(capsys, "--widths", "32,16", "--figure", "a.png")
    assert [(point["line"], point["width"]) for point in first] == [
        ("U only", 16),
        ("U only", 32),
        ("Random", 16),
        ("Random", 32),
        ("Normal", 16),
        ("Normal", 32),
    ]
    assert all(len(point["values"]) == 2 for point in first)
    assert all(27 < point["baseline"] < 29 for point in first), "the most frequent letter; chance is 12.5"
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr("icecore.sweeps.runner.train", lambda *_, **__: pytest.fail("trained again"))
    assert points(capsys, "--widths", "16,32") == first
    fewer = points(capsys, "--widths", "16", "--trainable", "all", "--seeds", "1")
    assert [len(point["values"]) for point in fewer] == [1], "of more seeds that are there, those asked for"
    assert main(["compare", REVERSAL, *SHORT, "--widths", "16,32", "--markdown"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "| width | 16 | 32 |"
    assert [line.split(" | ")[0] for line in shown[2:5]] == ["| U only", "| Random", "| Normal"]
    assert "baselines, which need no learning: chance 12.5, most frequent in context 27.8" in shown


def test_bodies_stand_beside_each_other_and_take_their_own_settings(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    bodies = ["--model", "transformer", "--model", GRU, "--widths", "16", "--trainable", "embeddings"]
    found = points(capsys, *bodies, "--init", "matched", "--heads", "2")
    assert [point["line"] for point in found] == ["Random", "Random, my-gru"]
    configs = [json.loads(line)["config"] for line in (tmp_path / "runs" / "runs.jsonl").read_text().splitlines()]
    models = {config["model"]["name"]: config["model"]["settings"] for config in configs}
    assert models["my-gru"] == {"width": 16}
    assert (models["transformer"]["init"], models["transformer"]["heads"]) == ("matched", 2)


def test_seeds_of_another_precision_are_not_mixed_in(tmp_path):
    task, body = make_task(REVERSAL, settings={"length": 6}), Transformer(width=16)
    (cell,) = comparison(task, {"transformer": [body]}, ["embeddings"], training={"steps": 4})
    Records(tmp_path).append(record_of(cell, seed, 0.9, "bf16") for seed in range(5))
    Records(tmp_path).append(record_of(cell, seed, 0.5, "fp32") for seed in range(2))
    (point,) = points_of([cell], 3, Records(tmp_path), device="cpu")
    assert point.values == (50.0, 50.0)


def test_what_is_missing_is_listed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", REVERSAL, *SHORT, "--widths", "16", "--dry-run"]) == 0
    assert "3 populations, 24 seed-steps" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--widths", "16,a"], "--widths must be whole numbers with commas"),
        (["--widths", "0"], "--widths must be at least 1"),
        (["--widths", "30", "--heads", "4"], "width must be a multiple of heads"),
        (["--trainable", "embedings"], "did you mean 'embeddings'?"),
        (["--model", "lstm", "--heads", "2"], "no model of lstm has heads"),
        (["--model", "lstm", "--model", "lstn"], "did you mean 'lstm'?"),
        (["--widths", "16", "--out", "/dev/null/runs"], "cannot write to /dev/null/runs"),
        (["--lenght", "4"], "did you mean 'length'?"),
        (["--widths", "16", "--figure", "a.xyz"], "must end in .png, .pdf or .svg"),
        (["--widths", "16", "--figure", "/dev/null/a.png"], "/dev/null cannot be written to"),
    ],
)
def test_what_is_wrong_is_told_before_anything_trains(tmp_path, monkeypatch, capsys, flags, message):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", REVERSAL, *SHORT, *flags]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_fails_is_told_and_the_rest_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", REVERSAL, *SHORT, "--widths", "16", "--lr", "1e30", "--trainable", "embeddings"]) == 2
    error = capsys.readouterr().err
    assert "failed: reversal, Random 16, seeds 0, 1:" in error
    assert "1 of 1 population failed" in error


def test_a_table_has_dashes_ranges_and_counts():
    bodies = {"transformer": [Transformer(width=width) for width in (16, 32)]}
    cells = comparison(make_task("needle"), bodies, ["embeddings", "all", "unembed"])
    found = [
        Point("needle", "Random", 16, (1.0, 2.0, 4.0), 5.0, (16, 32)),
        Point("needle", "Normal", 32, (9.0, 9.01), 5.0, (16, 32)),
    ]
    table = table_of(cells, found, 3)
    assert (table.headings, table.rows) == (
        ("width", "16", "32"),
        [("Random", "2.0 (1.0 to 4.0)", "-"), ("Normal", "-", "9.0, 2 seeds"), ("U only", "-", "-")],
    )


def test_seeds_may_be_named_and_other_measurements_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = ["--digits", "2", "--test-size", "50", "--widths", "16", "--trainable", "embeddings", "--seeds", "5,3"]
    command = ["compare", "decimal-addition", *SHORT[2:], *flags]
    assert main([*command, "--json"]) == 0
    (point,) = json.loads(capsys.readouterr().out.splitlines()[-1])["points"]
    records = {record["seed"]: record for record in Records(tmp_path / "runs").read()}
    assert records.keys() == {3, 5}
    assert [100 * records[seed]["accuracy"] for seed in point["seeds"]] == point["values"] == sorted(point["values"])
    assert main([*command, "--metric", "digit_accuracy", "--json"]) == 0
    (point,) = json.loads(capsys.readouterr().out.splitlines()[-1])["points"]
    assert point["values"] == sorted(100 * record["digit_accuracy"] for record in records.values())
    assert point["baseline"] is None
    assert main([*command, "--metric", "exact_match", "--figure", "a.png"]) == 0
    shown = capsys.readouterr().out
    assert "test exact match in %, median of 2 seeds" in shown
    assert "other metrics: --metric accuracy, --metric digit_accuracy" in shown
    assert main([*command, "--metric", "exact"]) == 2
    assert "did you mean 'exact_match'?" in capsys.readouterr().err


def test_tasks_of_one_name_stand_apart(tmp_path, monkeypatch):
    tasks = [make_task(REVERSAL, settings={"length": length}) for length in (5, 6)]
    bodies = {"transformer": [Transformer(width=16)]}
    training = {"steps": 2, "batch": 8, "warmup_steps": 1, "device": "cpu"}
    told: list[tuple[str, int]] = []
    found = ice.compare(
        tasks,
        bodies,
        ["all"],
        1,
        out=tmp_path,
        on_progress=lambda name, progress: told.append((name, progress.step)),
        **training,
    )
    assert [(point.task, point.line) for point in found] == [
        ("reversal, length 5", "Normal"),
        ("reversal, length 6", "Normal"),
    ]
    assert ("reversal, Normal 16, seed 0", 2) in told
    cells = [cell for task in tasks for cell in comparison(task, bodies, ["all"])]
    assert [row[0] for row in table_of(cells, found, 1).rows] == [
        "reversal, length 5, Normal",
        "reversal, length 6, Normal",
    ]
    twice = [*comparison(tasks[0], bodies, ["all"]), *comparison(tasks[0], bodies, ["all"], training={"lr": 0.1})]
    with pytest.raises(InputError, match="two different cells are called 'reversal, Normal 16'"):
        points_of(twice, 1, Records(tmp_path))
    monkeypatch.setattr("icecore.reporting.comparison.train_missing", lambda *_: pytest.fail("told first"))
    with pytest.raises(InputError, match="unknown metric of reversal 'exact'"):
        ice.compare(tasks, bodies, ["all"], 1, out=tmp_path, metric="exact", **training)
    monkeypatch.undo()
    with pytest.raises(InputError, match="reversal, Normal 16, seed 0 failed: "):
        ice.compare(tasks[0], bodies, ["all"], 1, out=tmp_path, lr=1e30, **training)


def test_the_baseline_of_a_comparison_is_the_best_rule(tmp_path):
    Records(tmp_path).append([record_of(CELLS[1], 0, 0.5, "fp32")])
    (point,) = points_of(CELLS[1:], 1, Records(tmp_path), "cpu", "fp32")
    baselines = CELLS[1].task.baselines().values()
    assert point.baseline == 100 * max(baselines) > 100 * min(baselines)
    assert point.values == (50.0,)


def test_what_another_process_trains_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = [*SHORT, "--widths", "16", "--trainable", "embeddings"]
    monkeypatch.setattr("icecore.sweeps.runner.locked", lambda _: contextlib.nullcontext(False))
    assert main(["compare", REVERSAL, *flags]) == 0
    shown = capsys.readouterr()
    assert "another process is training 1 population;" in shown.err
    assert "Random │  -" in shown.out


def test_records_of_which_something_is_missing_are_shown_and_said_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = [*SHORT, "--widths", "16", "--trainable", "embeddings"]
    assert main(["compare", REVERSAL, *flags]) == 0
    shown = capsys.readouterr().out
    file = tmp_path / "runs" / "runs.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    lines = [json.dumps({key: value for key, value in record.items() if key != "baselines"}) for record in records]
    file.write_text("\n".join([*lines, '{"run": 1\n']))
    assert main(["compare", REVERSAL, *flags]) == 0
    again = capsys.readouterr()
    assert again.out == shown
    assert again.err.count("line 3 is damaged and skipped") == 1
    assert main(["claims", "table1", "--results", "runs"]) == 0
    assert capsys.readouterr().err.count("line 3 is damaged and skipped") == 1, "of one command"


def test_what_is_judged_by_its_loss_is_not_compared_by_accuracy(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "imitation", "--widths", "16"]) == 2
    assert "imitation is judged by its loss" in capsys.readouterr().err
    assert main(["compare", "needle", "--model", "lstm", "--model", "transformer"]) == 2
    assert "give --widths" in capsys.readouterr().err


def test_lines_that_the_paper_does_not_have_differ_in_their_looks():
    """Hue tells the body, marker and dashes tell what trains."""
    lines = [f"{what}{body}" for what in ("Random", "Normal", "norm", "q,k") for body in ("", ", gru", ", mine")]
    styles = styles_of([Point("a", line, 16, (1.0,), 0.0, (16,)) for line in lines])
    looks = {(styles[line]["color"], styles[line]["marker"]) for line in lines}
    assert len(looks) == len(lines)
    assert {styles[line]["color"] for line in lines if line.endswith("gru")} == {styles["Random, gru"]["color"]}
    assert {styles[line]["marker"] for line in lines if line.startswith("norm")} == {styles["norm"]["marker"]}
