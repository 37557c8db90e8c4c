"""Notebooks show runs, comparisons, analyses and figures, and the tutorial in `examples/` runs."""

import ast
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_small import made_small
from small_runs import MODEL, SHORT, TASK

import icecore as ice
from icecore.errors import InputError
from icecore.reporting.findings import Findings

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOK = json.loads((EXAMPLES / "tutorial.ipynb").read_text())


def shown(value: object) -> str:
    """Return the rich form of a cell's last value: HTML, or the kind of a picture."""
    text = getattr(value, "_repr_html_", lambda: None)()
    if text is None and hasattr(value, "_repr_png_"):
        assert value._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
        return "PNG"
    return text or ""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return ice.train(TASK, MODEL, out=tmp_path_factory.mktemp("runs"), **SHORT)


@pytest.fixture(scope="module")
def thawed(run):
    settings: Any = {**SHORT, "trainable": "all", "from_run": run, "out": run.path.parents[1]}
    return ice.train(TASK, snapshots=1, **settings)


def test_a_run_shows_its_seeds_baselines_and_curves(run):
    text = shown(run)
    for seed, accuracy in enumerate(run.accuracy):
        assert f"<tr><td>{seed}</td><td>{accuracy:.4f}</td>" in text
    assert f"most frequent value {run.result['baselines']['most_frequent_value']:.4f}" in text
    assert f"{run.result['trained_parameters']:,} parameters trained" in text
    assert shown(run.plot()) == "PNG"


def test_an_analysis_shows_its_tables_and_figures(run):
    found = ice.analyze(run, "attention", prompt="a 1 b 2 a", items=20)
    assert found.numbers["attention"]["items"] == 20
    assert shown(found).count("<table>") == len(found.tables) == 2
    assert len(found.figures) == 1
    assert (
        shown(found).count('<img alt="needle: attention on ') == shown(found).count('src="data:image/png;base64,') == 1
    )
    assert repr(found) == f"Findings({'; '.join(table.title for table in found.tables)})"
    assert 'style="text-align: left">trained</td>' in shown(found), "notebooks justify to the right"
    both = ice.analyze(run, ["variance", str(EXAMPLES / "directions.py:directions")], seed=1, items=20)
    assert list(both.numbers) == ["variance", "directions"]
    with pytest.raises(InputError, match="unknown analysis 'atention': did you mean 'attention'"):
        ice.analyze(run, "atention")


def test_a_thaw_shows_its_verdict(thawed):
    found = ice.track(thawed, items=20)
    assert found.numbers["items"] == 20
    assert "new embeddings, old body" in shown(found)
    assert "<img " in shown(found)
    normal = ice.train(TASK, MODEL, "all", **SHORT)
    assert ice.track(thawed, beside=normal, items=20).tables[0].headings[-1] == "beside"
    with pytest.raises(InputError, match="train it with out=FOLDER"):
        ice.track(normal)


def test_names_in_a_result_are_no_markup(run):
    text = shown(replace(run, result={**run.result, "baselines": {"<script>": 0.5}}))
    assert "<script>" not in text
    assert "&lt;script&gt; 0.5000" in text


def cells(kind: str) -> list[str]:
    return ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == kind]


def test_the_tutorial_has_no_outputs_and_its_links_lead_somewhere():
    for cell in NOTEBOOK["cells"]:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
    links = re.findall(r"\]\(([^)]+)\)", "\n".join(cells("markdown")))
    assert [link for link in links if not (EXAMPLES / link).exists()] == []


def test_the_tutorial_runs(tmp_path, monkeypatch):
    """Its cells run here, on a smaller task: a kernel would import torch again, and Jupyter has 37 packages."""
    shutil.copy(EXAMPLES / "reversal.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    last: list[object] = []
    for source in cells("code"):
        *statements, end = ast.parse(made_small(source)).body
        is_shown = isinstance(end, ast.Expr)
        exec(compile(ast.Module([*statements, *([] if is_shown else [end])], []), "cell", "exec"), names)
        last += [eval(compile(ast.Expression(end.value), "cell", "eval"), names)] if isinstance(end, ast.Expr) else []
    assert names["runs"].config.steps == names["thawed"].config.steps == 3
    kinds = [type(value) for value in last]
    assert kinds.count(Findings) == 2, "the analysis and the thaw"
    assert all("<table>" in shown(value) for value in last if isinstance(value, Findings | ice.Comparison))
    assert [shown(value) for value in last].count("PNG") == 2
