"""A function of the user's own measures a run and its control; what is wrong with it is told in a line."""

import json
from pathlib import Path

import pytest
import torch

from icecore.cli import main
from icecore.models import initialize
from icecore.training import RunFolder

ROOT = Path(__file__).parents[1]
TASK = ["needle", "--max-pairs", "2", "--values", "9", "--vocabulary", "20", "--test-size", "20"]
TINY = ["--width", "8", "--steps", "3", "--batch", "4", "--warmup-steps", "1", "--seeds", "2", "--json"]
GOOD = """
import torch


def norms(model, parameters, batch, power=1):
    logits = model.logits(parameters, batch.tokens)
    return {"token": parameters["token"].norm() ** power, "items": len(batch), "logit": logits.max().item()}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    assert main(["train", *TASK, *TINY, "--out", str(out)]) == 0
    (path,) = out.glob("needle/*")
    return path


def analyze(run: Path, what: str, *more: str) -> int:
    return main(["analyze", str(run), "--what", what, *more])


def written(tmp_path: Path, text: str) -> str:
    (tmp_path / "look.py").write_text(text)
    return str(tmp_path / "look.py")


def test_it_measures_the_trained_and_the_untrained_model(run, tmp_path, capsys):
    spec = f"{written(tmp_path, GOOD)}:norms"
    assert analyze(run, f"{spec},variance", "--items", "7", "--seed", "1", "--json") == 0
    analyses = json.loads(capsys.readouterr().out.splitlines()[-1])["analyses"]
    assert list(analyses) == ["norms", "variance"]
    found = analyses["norms"]
    assert (found["file"], found["items"], len(found["hash"])) == (spec, 7, 12)
    config, population = RunFolder(run).load(torch.device("cpu"))
    both = {"trained": population.parameters(1), "untrained": initialize(config.model, config.dims, 1)}
    tokens = config.task.test_set()[:7].tokens
    for name, parameters in both.items():
        assert found[name]["token"] == pytest.approx(float(parameters["token"].norm()))
        assert found[name]["logit"] == pytest.approx(float(config.model.logits(parameters, tokens).max()), rel=1e-5)
        assert found[name]["items"] == 7
    assert found["trained"] != found["untrained"]


def test_it_cannot_change_what_others_see(run, tmp_path, capsys):
    text = "def emptied(model, parameters, batch):\n    return parameters['token'].zero_().norm()\n"
    found = []
    for what in (f"{written(tmp_path, text)},variance", "variance"):
        assert analyze(run, what, "--json") == 0
        found.append(json.loads(capsys.readouterr().out.splitlines()[-1])["analyses"]["variance"])
    assert found[0] == found[1]


def test_it_can_look_at_other_bodies(tmp_path, capsys):
    out = tmp_path / "runs"
    assert main(["train", *TASK, *TINY, "--model", "lstm", "--out", str(out)]) == 0
    (path,) = out.glob("needle/*")
    capsys.readouterr()
    assert analyze(path, written(tmp_path, GOOD)) == 0
    assert "token" in capsys.readouterr().out
    assert main(["analyze", str(path), "--what", "readout"]) == 0, "which reads what any unembedding reads"
    assert "The unembedding alone on the untrained body" in capsys.readouterr().out


def test_a_number_alone_has_the_functions_name(run, tmp_path, capsys):
    text = "def rows(model, parameters, batch):\n    return parameters['token'].shape[0]\n"
    assert analyze(run, written(tmp_path, text)) == 0
    assert "rows │      20 │        20" in (shown := capsys.readouterr().out)
    assert "look.py, on 20 test items" in shown


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("return 'many'", "must give a number, or a dict of them; it gave a str for look"),
        ("return {'a': None}", "it gave a NoneType for a"),
        ("return parameters['token']", "it gave a Tensor for look"),
        ("return {}", "it gave none"),
        ("return float('nan')", "gave nan for look, which is not finite"),
        (
            "return {'a': 1 / 0}",
            "failed (ZeroDivisionError: division by zero, in look.py line 2); fix it and try again",
        ),
        ("raise SystemExit(0)", "failed (SystemExit: 0, in look.py line 2)"),
        ("return {str(float(parameters['token'].sum())): 1}", "must return the same names for every model"),
    ],
)
def test_what_it_gives_must_be_numbers(run, tmp_path, capsys, body, error):
    spec = written(tmp_path, f"def look(model, parameters, batch):\n    {body}\n")
    assert analyze(run, spec) == 2
    assert error in (said := capsys.readouterr().err.splitlines()[-1])
    assert said.startswith("error: ")


@pytest.mark.parametrize(
    ("text", "name", "error"),
    [
        (GOOD, ":nroms", "did you mean 'norms'"),
        (GOOD + "\n\ndef other(model, parameters, batch):\n    return 1\n", "", "name the function: "),
        ("from math import sqrt\n", "", "in the file: none"),
        ("def norms(model):\n    return 1\n", "", "must take (model, parameters, batch)"),
        ("def variance(model, parameters, batch):\n    return 1\n", "", "two analyses would have the name variance"),
        ("1 / 0\n", "", "does not import (ZeroDivisionError"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(run, tmp_path, capsys, text, name, error):
    assert analyze(run, written(tmp_path, text) + name) == 2
    assert error in capsys.readouterr().err


def test_a_file_that_is_not_there_is_told_before_anything_is_measured(run, tmp_path, capsys):
    assert analyze(run, f"variance,{tmp_path}/nothing.py:look") == 2
    assert "give FILE.py:FUNCTION" in (error := capsys.readouterr().err)
    assert "moments" not in error


def test_the_example_counts_directions(run, capsys):
    assert analyze(run, str(ROOT / "examples/directions.py:directions"), "--json") == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["analyses"]["directions"]
    assert list(found["trained"]) == ["embedding", "block0.stream", "block1.stream", "final"]
    assert all(1 <= value <= 8 for both in ("trained", "untrained") for value in found[both].values())
