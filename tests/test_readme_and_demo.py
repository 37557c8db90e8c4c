"""What the README shows runs, and the demo ends in its table, its JSON and its picture."""

import json
import re
from pathlib import Path

import pytest

from icecore.cli import main
from icecore.sweeps import demo
from icecore.sweeps.laptop import Size, Training
from icecore.tasks import ModularAddition, Needle

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_python_snippet_runs():
    (snippet,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert "steps=650" in snippet
    names: dict = {}
    exec(snippet.replace("steps=650", "steps=3"), names)
    assert len(names["runs"].accuracy) == 3
    assert names["values"]["block1.attention"].shape == (300, 4, 9, 9)


@pytest.mark.parametrize(
    "command", sorted({match.split()[1] for match in re.findall(r"^icecore .*$", README, re.MULTILINE)})
)
def test_every_command_of_the_readme_exists(command, capsys):
    assert main([command, "--help"]) == 0
    assert "Usage" in capsys.readouterr().out


SHORT = Training(steps=3, lr=1e-2)
SMALL = (
    Size(ModularAddition(modulus=11), 32, SHORT, SHORT, SHORT, SHORT, SHORT),
    Size(Needle(max_pairs=2, values=9, vocabulary=20, test_size=20), 16, SHORT, SHORT, SHORT, SHORT, SHORT),
)


def test_the_demo_ends_in_a_table_a_picture_and_json(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(demo, "SIZES", SMALL)
    monkeypatch.setattr(demo, "UNEMBED_STEPS", 3)
    assert main(["demo", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "Random, 3 seeds" in out
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert main(["demo", "--out", str(tmp_path), "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("| task | floor | U only | Random, 3 seeds | Normal, 3 seeds |\n| --- |")
    assert main(["demo", "--out", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [row["task"] for row in result["rows"]] == ["modular-addition", "needle"]
    for row in result["rows"]:
        assert set(row) == {"task", "floor", "unembed_only", "random", "normal"}
        assert len(row["random"]) == 3
        assert len(row["normal"]) == 3
    assert result["seconds"] < 60, "what was trained is not trained again"


def test_the_demo_trains_what_it_says():
    for size in demo.SIZES:
        runs = demo.runs_of(size)
        assert {name: run["trainable"] for name, run in runs.items()} == {
            "random": "embeddings",
            "normal": "all",
            "unembed_only": "unembed",
        }
    assert demo.total_steps() == sum(
        3 * size.random.steps + 3 * size.normal.steps + demo.UNEMBED_STEPS for size in demo.SIZES
    )
