"""Tables and messages have each number below its heading and beside its name."""

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest
from looking import cells_of
from made_up import cells_at, record_of
from prepared_texts import prepare, stories_file
from small_runs import MODEL, SHORT, TASK

import icecore as ice
from icecore.analysis.errors import AccuracyByPosition, ErrorsByLength
from icecore.cli import main
from icecore.cli.analyze import parse_components, show
from icecore.cli.evaluate import print_lengths, print_positions, some_of
from icecore.cli.prepare import report
from icecore.cli.progress import duration, plain_lines, progress_in_words, stage_progress, sweep_progress
from icecore.cli.targets import row_of
from icecore.cli.train import announce
from icecore.models import ModelDims, Transformer
from icecore.reporting.inside import ANALYSES
from icecore.store import Records
from icecore.sweeps import runner
from icecore.tasks import Needle
from icecore.training.imitation_target import TargetNumbers
from icecore.training.progress import Progress


def test_tables_of_analyses_have_each_number_below_its_heading(capsys):
    def rows(name: str, result: dict[str, Any]) -> list[list[str]]:
        show(ANALYSES, {name: result})
        return cells_of(capsys.readouterr().out)

    places = {"trained": {"final": {"directions": 0.1, "neurons": 0.2}}}
    places["untrained"] = {"final": {"directions": 0.3, "neurons": 0.4}}
    assert rows("variance", {"activations": 7, "positions": "read", **places}) == [
        ["activation", "directions", "untrained", "neurons", "untrained"],
        ["final", "10.0", "30.0", "20.0", "40.0"],
    ]
    one = {"kind": "ridge", "train_accuracy": 0.5, "test_accuracy": 0.25, "items": 9}
    table = rows("readout", {"readouts": [one], "baselines": {"a rule": 0.1}})
    assert table == [["", "train", "test", "scored positions"], ["ridge", "50.0", "25.0", "9"]]
    show(ANALYSES, {"readout": {"readouts": [one], "baselines": {"a rule": 0.1, "another": 0.2}}})
    assert "baselines: a rule 10.0, another 20.0\n" in capsys.readouterr().out
    heads = {
        "best_value_to_marker": {"layer": 1, "head": 2, "score": 0.9},
        "best_query_to_value": {"layer": 2, "head": 1, "score": 0.8},
        "uniform": (0.3, 0.2),
    }
    prompt = {"words": ["a", "1", "a?"], "maps": [[[[1.0, 0, 0], [0.5, 0.5, 0], [0.1, 0.7, 0.2]]]]}
    assert rows("attention", {"trained": heads, "prompt": prompt}) == [
        ["", "attention", "best head", "mean", "uniform"],
        ["trained", "value to marker", "layer 1, head 2", "0.900", "0.300"],
        ["trained", "query to value", "layer 2, head 1", "0.800", "0.200"],
        ["", "to", "position", "attention"],
        ["layer 1, head 1", "1", "2", "0.700"],
    ]
    names = ("circularity", "gradient_symmetricity", "distance_irrelevance", "distance_irrelevance_of_largest_wrong")
    rings = [{name: start + place / 10 for place, name in enumerate(names)} for start in (0, 1)]
    result = {"trained": {**rings[0], "key_frequencies": (3, 7)}, "untrained": {**rings[1], "key_frequencies": ()}}
    show(ANALYSES, {"modular": result})
    out = capsys.readouterr().out
    assert "key frequencies, trained: 3, 7\nkey frequencies, untrained: none\n" in out
    assert cells_of(out)[:3] == [
        ["", "trained", "untrained"],
        ["circularity", "0.000", "1.000"],
        ["gradient symmetricity", "0.100", "1.100"],
    ]
    table = rows("capacity", {"trained": {"loss_bits": 1234.5}, "untrained": {"loss_bits": 6.789}})
    assert table == [["", "trained", "untrained"], ["loss bits", "1,234.50", "6.79"]]
    curves = [
        {
            "mode": mode,
            "basis": "directions",
            "counts": [1, 2],
            "accuracy": values,
            "places": ["final"],
            "shuffled": off,
        }
        for mode, values, off in (("keep", [0.1, 0.9], [0.05, 0.06]), ("remove", [0.8, 0.2], [0.07, 0.08]))
    ]
    show(ANALYSES, {"causal": {"items": 40, "curves": curves}})
    out = capsys.readouterr().out
    assert "against shuffled answers, directions kept: 5.0 6.0\n" in out
    assert cells_of(out) == [
        ["", "k =", "1", "2"],
        ["keep", "directions", "10.0", "90.0"],
        ["remove", "directions", "80.0", "20.0"],
    ]
    assert parse_components("1, 3") == (0, 2)


def test_tables_of_tasks_have_each_number_below_its_heading(capsys):
    def rows(*arguments: str) -> dict[str, list[str]]:
        assert main([*arguments]) == 0
        return {first: rest for first, *rest in cells_of(capsys.readouterr().out)}

    tasks = rows("tasks")
    assert tasks["task"][:4] == ["version", "presets", "vocabulary", "length"]
    assert tasks["needle"][:4] == ["1", "released, unfiltered, reconstructed, paper", "256", "61"]
    settings = rows("tasks", "needle")
    assert settings["flag"] == ["released", "unfiltered", "reconstructed", "paper"]
    for name, (default, *presets) in settings.items():
        if name.startswith("--"):
            field = name.removeprefix("--").replace("-", "_")
            others = ("unfiltered", "reconstructed", "paper")
            of_presets = [str(Needle.presets[preset].get(field, default)) for preset in others]
            assert presets == of_presets, name
    assert settings["--test-items-in-stream"] == ["False", "True", "True", "False"]
    assert main(["data", "needle", "--split", "train"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1000, "as the help says"


def test_a_row_of_claims_has_each_number_below_its_heading(tmp_path, capsys):
    cell = {cell.label: cell for cell in cells_at("table1")}["needle, Random 16"]
    Records(tmp_path).append(record_of(cell, seed, value) for seed, value in enumerate((0.09, 0.06, 0.07, 0.07, 0.07)))
    assert main(["claims", "table1", "--markdown", "--results", str(tmp_path)]) == 0
    headings, _, *rows = capsys.readouterr().out.splitlines()
    (row,) = [row for row in rows if "needle, Random 16 |" in row]
    shown = dict(zip(headings.strip("| ").split(" | "), row.strip("| ").split(" | "), strict=True))
    assert {name: shown[name] for name in ("paper", "ours", "n", "spread", "baseline", "verdict")} == {
        "paper": "7.5",
        "ours": "7.0",
        "n": "5",
        "spread": "6.0 to 9.0",
        "baseline": "20.0",
        "verdict": "reproduced",
    }


def test_progress_says_how_long_it_still_takes(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("icecore.cli.progress.time", SimpleNamespace(monotonic=lambda: now[0]))
    both = Progress(110, 200, [0.1, 0.3], accuracy=[0.9, 0.5])
    assert progress_in_words(both) == "loss 0.2000, accuracy 0.500 to 0.900"
    watch = plain_lines("needle")
    watch(Progress(100, 200, [0.5], accuracy=[0.1]))  # resumes from a checkpoint
    now[0] = 10.0
    watch(both)
    assert capsys.readouterr().err.splitlines()[-1] == f"needle: step 110/200, {progress_in_words(both)}, 90 s left"
    with sweep_progress(100) as runs:
        runs.begin("one", 50)
        now[0] += 60
        runs.end("one is through", 50)
        runs.begin("two", 50)
    assert capsys.readouterr().err.splitlines() == ["[  0%] one", "[ 50%] one is through", "[ 50%, 60 s left] two"]
    with stage_progress() as on_progress:
        on_progress("reading", 0, 100)
        now[0] += 1000  # set-up, which says nothing of the pace
        on_progress("reading", 25, 100)
        now[0] += 10
        on_progress("reading", 50, 100)
    assert capsys.readouterr().err.splitlines() == ["reading", "reading: 25%", "reading: 50%, 20 s left"]
    assert [duration(seconds) for seconds in (7, 99, 150, 5999, 12_000)] == [
        "7 s",
        "99 s",
        "2 min",
        "1 h 40 min",
        "3 h 20 min",
    ]


def test_the_report_of_a_text_has_bytes_a_token_and_what_was_asked_for(tmp_path, capsys):
    text = prepare(tmp_path / "out", stories_file(tmp_path), vocabulary=5000).text
    report(text, was_there=False, seconds=1.5)
    out = capsys.readouterr().out
    row = text.manifest["splits"]["train"]
    assert f"{row['tokens']:,} │{row['bytes'] / row['tokens']:16.3f}" in out
    assert row["bytes"] > row["tokens"]
    assert f"too small for 5,000 tokens; its vocabulary has {text.vocabulary:,}" in out


def test_numbers_of_a_target_stand_below_their_headings():
    one = TargetNumbers("released", 4, entropy=1.0, pairwise_kl=2.0, uniform=3.0, mean_output=4.0)
    assert row_of(one) == ("released", "4", "1.000", "2.000", "3.000", "4.000")


def words(tokens) -> str:
    return " ".join(map(str, tokens))


def test_tables_of_errors_name_lengths_positions_and_seeds(capsys):
    lengths = [
        ErrorsByLength(3, 40, (0, 2), ((8,), (9,))),
        ErrorsByLength(5, 30, (1, 0), ((7,),)),
        ErrorsByLength(7, 20, (0, 0), ()),
    ]
    print_lengths((5, 9), lengths, words)
    out = capsys.readouterr().out
    assert out.startswith("\nWrong items by the length of their prompts, in tokens; 1 length without errors\n")
    assert cells_of(out) == [
        ["tokens", "items", "wrong, seed 5", "wrong, seed 9", "correct answers"],
        ["3", "40", "0", "2", "8, 9"],
        ["5", "30", "1", "0", "7"],
    ]
    print_positions((5, 9), [AccuracyByPosition(1, 6, (0.5, 0.25)), AccuracyByPosition(2, 4, (1.0, 0.0))])
    out = capsys.readouterr().out
    assert out.startswith("\nAccuracy by the position")
    assert cells_of(out) == [
        ["position", "items", "seed 5", "seed 9"],
        ["1", "6", "0.5000", "0.2500"],
        ["2", "4", "1.0000", "0.0000"],
    ]
    print_lengths((5, 9), lengths[:2], words)
    assert "Wrong items by the length of their prompts, in tokens\n" in capsys.readouterr().out, "no '0 lengths'"
    assert some_of([(1, 2), (3,), (4,), (5,), (6,), (7,)], words) == "1 2, 3, 4, 5 and 2 more"


def test_seeds_are_called_by_their_numbers_not_their_places(tmp_path, capsys):
    seeds = (4, 2, 7, 5)
    settings: dict[str, Any] = {**SHORT, "seeds": seeds}
    path = ice.train(TASK, MODEL, out=tmp_path, **settings).path
    assert path is not None
    errors = tmp_path / "wrong.jsonl"
    assert main(["evaluate", str(path), "--errors", str(errors)]) == 0
    out = capsys.readouterr().out
    assert {json.loads(line)["seed"] for line in errors.read_text().splitlines()} == set(seeds)
    shown = cells_of(out)
    result = json.loads((path / "result.json").read_text())
    rows = [[f"{result[name][index]:.4f}" for name in ("accuracy", "loss")] for index in range(4)]
    assert [(line[0], line[1], line[-1]) for line in shown[1:]] == [
        (str(seed), *row) for seed, row in zip(seeds, rows, strict=True)
    ]
    trained, frozen = result["trained_parameters"], result["frozen_parameters"]
    assert f"{trained:,} parameters trained, {frozen:,} frozen" in out
    for flags, kept in (([], (4, 2, 7)), (["--seeds", "1"], (4,))):
        assert main(["extract", str(path), "--out", str(tmp_path / "kept"), *flags]) == 0
        assert f"seeds {', '.join(map(str, kept))} of" in capsys.readouterr().out
    (path / "result.json").unlink()
    assert main(["show", str(path)]) == 0
    assert "unfinished: 12 of 12 steps logged" in capsys.readouterr().out


def test_what_trains_and_what_is_frozen_is_announced(capsys):
    model, dims = Transformer(width=8), ModelDims(20, 5)
    total = sum(spec.size for spec in model.specs(dims).values())
    announce(model, dims, "token+unembed")
    assert capsys.readouterr().err == f"320 parameters train (token 160, unembed 160), {total - 320:,} are frozen\n"


def test_a_wide_body_on_a_cpu_is_warned_of(monkeypatch, capsys):
    monkeypatch.setattr("icecore.training.train_config", lambda *_, **__: pytest.fail("told first"))
    for width, is_warned_of in (("512", True), ("256", False)):
        with pytest.raises(pytest.fail.Exception):
            main(["train", "needle", "--device", "cpu", "--width", width])
        assert (f"on a CPU, width {width} can take hours" in capsys.readouterr().err) == is_warned_of


def test_a_comparison_says_its_seeds_and_warns_of_wide_bodies_on_a_cpu(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("icecore.sweeps.comparison.run_missing", lambda *_: [])
    command = ["compare", "needle", "--device", "cpu", "--trainable", "all"]
    assert main([*command, "--widths", "512", "--dry-run"]) == 0
    assert "needle, Normal 512, seeds 0, 1, 2: 30,000 seed-steps" in capsys.readouterr().out
    for width, is_warned_of in (("512", True), ("256", False)):
        assert main([*command, "--widths", width]) == 0
        shown = capsys.readouterr()
        assert (f"on a CPU, width {width} can take hours" in shown.err) == is_warned_of
        assert "needle: test accuracy in %, median of 3 seeds (min to max)" in shown.out


def test_the_end_of_a_sweep_counts_what_did_not_fail(tmp_path, monkeypatch, capsys):
    def all_but_one(jobs, *details):
        *_, on_done = details
        for job in jobs[1:]:
            on_done(job, [1.0] * len(job.seeds))
        return [runner.Failure("one", "a reason")]

    monkeypatch.setattr("icecore.sweeps.runner.run_missing", all_but_one)
    at = ["--results", str(tmp_path), "--runs", str(tmp_path / "runs"), "--device", "cpu"]
    assert main(["reproduce", "table1", "--only", "needle", *at]) == 2
    shown = capsys.readouterr()
    assert re.search(r"\b4 populations in \d+ s\n", shown.out)
    assert "failed: one: a reason" in shown.err
    assert "1 of 5 populations failed" in shown.err
    assert main(["reproduce", "table1", "--only", "needle, Random 16", "--dry-run", *at]) == 0
    assert "needle, Random 16, seeds 0, 1, 2:" in capsys.readouterr().out, "three of each, as the help says"
