"""A body whose parameters and activations have names of their own goes through every command that fits it."""

import json
from pathlib import Path
from typing import Any

import pytest
from own_bodies import TWO_TABLES

from icecore.cli import main

SMALL = ["--batch", "16", "--warmup-steps", "1", "--device", "cpu", "--json"]
MODULAR = ["modular-addition", "--modulus", "11"]


@pytest.fixture(autouse=True)
def fewer_items(monkeypatch):
    monkeypatch.setattr("icecore.reporting.inside.readout.SAMPLE", 200)
    monkeypatch.setattr("icecore.analysis.readout.LOGISTIC_ITERATIONS", 4)


def last_json(capsys: Any) -> dict[str, Any]:
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def trained(folder: Path, capsys: Any, *flags: str) -> str:
    body = folder / "two_tables.py"
    body.write_text(TWO_TABLES)
    assert main(["train", *MODULAR, *flags, "--model", f"{body}:TwoTables", *SMALL, "--out", str(folder)]) == 0
    return last_json(capsys)["run"]


def test_every_analysis_that_fits_is_made(tmp_path, capsys):
    run = trained(tmp_path, capsys, "--steps", "3")
    assert main(["analyze", run, "--items", "20", "--json"]) == 0
    found = last_json(capsys)["analyses"]
    assert list(found) == ["variance", "causal", "readout"]
    assert list(found["variance"]["trained"]) == ["sum", "mixed"]
    assert main(["report", run, "--out", str(tmp_path / "report.html")]) == 0
    assert "mixed" in (tmp_path / "report.html").read_text()


def test_circles_of_two_tables_are_not_defined(tmp_path, capsys):
    run = trained(tmp_path, capsys, "--steps", "3")
    assert main(["analyze", run, "--what", "modular"]) == 2
    assert "two-tables must have one parameter with the role 'token', has 2" in capsys.readouterr().err


def test_its_thaw_is_tracked(tmp_path, capsys):
    """Two tables of numbers have no frequencies to compare; all else is."""
    run = trained(tmp_path, capsys, "--phases", "embeddings:3,all:3", "--snapshots", "2", "--seeds", "2")
    assert main(["track", run, "--items", "20", "--json"]) == 0
    found = json.dumps(last_json(capsys))
    assert "overlap of top directions" in found
    assert "frequencies" not in found


def test_one_table_without_an_embedding_has_no_gradient_to_take(tmp_path, capsys):
    one = TWO_TABLES.replace('"more_words": ParameterSpec(shape, "token", 0.1),', "")
    (tmp_path / "one.py").write_text(one.replace(' + parameters["more_words"][tokens] ** 2', ""))
    flags = ["--steps", "3", *SMALL, "--out", str(tmp_path)]
    assert main(["train", *MODULAR, *flags, "--model", f"{tmp_path / 'one.py'}:TwoTables"]) == 0
    run = last_json(capsys)["run"]
    assert main(["analyze", run, "--what", "modular"]) == 2
    assert "two-tables has no activation `embedding` to take gradients of" in capsys.readouterr().err
