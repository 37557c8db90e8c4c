"""`icecore analyze`, end to end on small runs."""

import json
import re
from pathlib import Path

import pytest
import torch
from small_runs import run_json

from icecore.cli import main
from icecore.reporting.inside import ANALYSES, AnalysisContext, AnalysisOptions, AnalyzedRun, analyze_run
from icecore.training import RunFolder

TINY = ["--width", "16", "--init", "matched", "--steps", "30", "--batch", "32", "--lr", "1e-2", "--warmup-steps", "5"]
NEEDLE = ["needle", "--max-pairs", "4", "--values", "9", "--vocabulary", "20", "--test-size", "40"]


@pytest.fixture(autouse=True)
def few_items_to_solve_readouts_on(monkeypatch):
    monkeypatch.setattr("icecore.reporting.inside.readout.SAMPLE", 2_000)


def train(tmp_path, capsys, *arguments: str) -> str:
    assert main(["train", *arguments, *TINY, "--out", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    return str(tmp_path / arguments[0] / result["run_id"])


def test_a_needle_run_is_looked_into(tmp_path, capsys):
    run = train(tmp_path, capsys, *NEEDLE, "--seeds", "2")
    assert main(["analyze", run, "--seed", "1", "--figures", str(tmp_path / "figures"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    found = result["analyses"]
    assert list(found) == ["variance", "causal", "attention", "readout"]
    assert {"trained", "untrained"} <= found["variance"].keys()
    assert {curve["mode"] for curve in found["causal"]["curves"]} == {"keep", "remove"}
    assert found["attention"]["prompt"]["words"] == ["a", "1", "b", "2", "c", "3", "d", "4", "b?"]
    stems = {f"needle-{Path(run).name}-seed1-{name}" for name in ("variance", "causal", "attention", "readout")}
    assert {Path(file).stem for file in result["figures"]} == stems, "no other run has them"
    for file in result["figures"]:
        assert Path(file).read_bytes()[:4] in (b"\x89PNG", b"%PDF")
    assert main(["analyze", run, "--what", "variance,attention", "--prompt", "b 2 a 1 a"]) == 0
    shown = capsys.readouterr().out
    assert "% of variance within the top 10" in shown
    assert "Strongest attention from the last token of 'b 2 a 1 a?'" in shown


def test_linearized_attention_has_no_maps(tmp_path, capsys):
    run = train(tmp_path, capsys, *NEEDLE, "--model", "linearized")
    assert main(["analyze", run, "--items", "10", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out.splitlines()[-1])["analyses"]) == ["variance", "causal", "readout"]
    assert main(["evaluate", run]) == 0
    assert "needle, linearized, width 16" in capsys.readouterr().out


def test_long_analyses_tell_how_far_they_are(tmp_path, capsys):
    config, population = RunFolder(Path(train(tmp_path, capsys, *NEEDLE))).load(torch.device("cpu"))
    heard: list[tuple[str, int, int]] = []
    look = AnalysisContext(
        AnalyzedRun.of(config, population, 0), AnalysisOptions(items=30), lambda *how: heard.append(how)
    )
    found = dict(analyze_run(look, [ANALYSES[name] for name in ("variance", "causal", "attention")]))
    assert found["attention"]["items"] == 30
    ends = {name: (done, total) for name, done, total in heard}
    assert ends.pop("variance") == (0, 1), "its time is that of the moments, which causal needs too"
    assert ends.keys() == {"moments", "causal", "attention"}
    assert all(done == total > 1 for done, total in ends.values())
    assert [name for name, done, _ in heard if done == 0].count("moments") == 1, "they are gathered once"


def test_a_run_of_modular_addition_has_circles_and_memorization_has_bits(tmp_path, capsys):
    run = train(tmp_path, capsys, "modular-addition", "--modulus", "13")
    figures = ["--figures", str(tmp_path / "figures"), "--components", "1,3"]
    assert main(["analyze", run, "--what", "modular,causal,readout", "--activation", "block0.stream", *figures]) == 0
    shown = capsys.readouterr().out
    assert "gradient symmetricity" in shown
    assert "key frequencies, untrained" in shown
    assert "k directions at block0.stream" in shown
    begin = f"modular-addition-{Path(run).name}-seed0"
    drawn = {f"{begin}-{name}.{end}" for name in ("circles", "causal", "readout") for end in ("png", "pdf")}
    assert {path.name for path in (tmp_path / "figures").iterdir()} == drawn
    run = train(tmp_path, capsys, "memorization", "--keys", "8")
    out = tmp_path / "kept" / "bits.json"
    assert main(["analyze", run, "--what", "capacity", "--json", "--out", str(out), *figures[:2]]) == 0
    shown = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert shown["figures"] == [], "of bits there is none"
    analyses = shown["analyses"]
    bits, kept = analyses["capacity"], json.loads(out.read_text())
    assert kept["analyses"] == analyses
    assert {"commit", "command", "device"} <= kept.keys()
    assert 0 <= bits["trained"]["loss_bits"] <= 64 * 3
    assert bits["trained"]["accuracy_bits_per_trained"] == pytest.approx(
        bits["trained"]["accuracy_bits"] / bits["trained"]["trained_parameters"]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--what", "varience"], "did you mean 'variance'"),
        (["--what", "modular"], "modular needs a run of modular-addition"),
        (["--what", "capacity"], "capacity needs a run of memorization"),
        (["--positions", "some"], "choice of positions"),
        (["--activation", "block7.stream"], "unknown activation"),
        (["--components", "1,9"], "two of 1 to 4"),
        (["--components", "2,2"], "two different ones"),
        (["--seed", "5"], "has the seeds [0], not 5"),
        (["--what", "attention", "--prompt", "a b"], "needle reads markers"),
    ],
)
def test_bad_input(tmp_path, capsys, arguments, message):
    run = train(tmp_path, capsys, *NEEDLE)
    assert main(["analyze", run, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_an_lstm_is_looked_into_at_each_layer(tmp_path, capsys):
    assert main(["analyze", str(tmp_path / "nothing")]) == 2
    flags = [flag for flag in TINY if flag not in ("--init", "matched")]
    assert main(["train", *NEEDLE, "--model", "lstm", *flags, "--out", str(tmp_path), "--json"]) == 0
    run = str(tmp_path / "needle" / json.loads(capsys.readouterr().out.splitlines()[-1])["run_id"])
    assert main(["analyze", run, "--items", "9999", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out.splitlines()[-1])["analyses"]
    assert list(found) == ["variance", "causal", "readout"], "it has no attention, and needle no circles"
    assert "do not fit this run: attention, modular, capacity; --what NAME says why" in err
    assert list(found["variance"]["trained"]) == ["embedding", "layer0.output", "layer1.output"]
    assert found["variance"]["trained"] != found["variance"]["untrained"]
    everything = [curve["accuracy"][-1] for curve in found["causal"]["curves"] if curve["mode"] == "keep"]
    accuracy = run_json(capsys, "evaluate", run, "--json")["accuracy"][0]
    assert everything == pytest.approx([accuracy] * len(everything)), "all directions kept is the model"
    assert main(["analyze", run, "--what", "attention"]) == 2
    assert "lstm with these settings has no attention maps" in capsys.readouterr().err


def test_the_seed_that_is_asked_for_is_looked_into(tmp_path, capsys):
    path = train(tmp_path, capsys, *NEEDLE, "--seeds", "2")
    config, population = RunFolder(path).load(torch.device("cpu"))
    shown = [run_json(capsys, "analyze", path, "--what", "variance", "--seed", seed, "--json") for seed in (0, 1)]
    for seed, one in enumerate(shown):
        expected = dict(analyze_run(AnalysisContext(AnalyzedRun.of(config, population, seed)), [ANALYSES["variance"]]))[
            "variance"
        ]
        found = one["analyses"]["variance"]["trained"]["final"]["directions"]
        assert found == pytest.approx(expected["trained"]["final"]["directions"])
    assert shown[0]["analyses"] != shown[1]["analyses"]


def test_help_names_every_analysis(capsys):
    assert main(["analyze", "--help"]) == 0
    words = set(re.findall(r"[a-z]+", capsys.readouterr().out))
    assert set(ANALYSES) <= words
