"""Commands and code of the README and the guides run, and the demo ends in its table, its JSON and its picture."""

import contextlib
import functools
import itertools
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from made_small import made_small

import icecore as ice
from icecore.cli import main
from icecore.errors import Interrupted
from icecore.models import Transformer
from icecore.sweeps import demo
from icecore.sweeps.laptop import LaptopRecipe, Training
from icecore.tasks import ModularAddition, Needle, Parentheses
from icecore.training import RunConfig, config_of

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
NAMES = ("tutorial", "own-task", "own-body", "own-measurement", "cluster", "ladder", "rank", "lens")
GUIDES = [(ROOT / f"docs/{name}.md").read_text() for name in NAMES]
FILE = re.compile(r"# (my_\w+\.py)\n")  # the first line of code that a guide keeps in a file


def python_in(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", document, re.DOTALL)


def test_the_python_snippet_runs(tmp_path, monkeypatch):
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.chdir(tmp_path)
    (snippet,) = python_in(README)
    names: dict = {}
    exec(made_small(snippet), names)
    assert len(names["runs"].accuracy) == 3
    assert names["values"]["block1.attention"].shape == (300, 4, 9, 9)
    assert names["kept"].accuracy == pytest.approx([0.94775] * 3)
    assert ice.analysis.explained(names["moments"]["block1.stream"], 10).directions > 0.5
    assert len(names["runs"].predict("a 1 b 2 b")) == 3
    last = names["points"][-1]
    assert (last.line, last.width, len(last.values)) == ("Random", 8, 2)


COMMANDS = list(
    dict.fromkeys(
        command.removeprefix("icecore ").strip()
        for document in (README, *GUIDES)
        for line in re.findall(r"^icecore .*$", re.sub(r"\\\n +", "", document), re.MULTILINE)
        for command in line.partition("#")[0].split(" · ")
    )
)
# What makes a command small; the last of two equal flags counts.
SMALLER = {
    "train": "--width 16 --steps 2 --batch 4 --seeds 2 --out runs",
    "compare": "--widths 16 --steps 2 --batch 4 --seeds 2 --warmup-steps 1 --out runs",
    "threshold": "--widths 4 --steps 4 --batch 4 --seeds 1 --lr 1e-2 --gains 1 --init matched --out runs",
    "reproduce": "--dry-run",
    "analyze": "--items 5",
    "track": "--items 5",
    "bench": "--task needle --width 16 --seconds 0.01",
    "targets": "--width 4 --items 10",
}
RUNS = {
    "RUN": ["needle", "--max-pairs", "4", "--values", "9", "--vocabulary", "20", "--test-size", "20", "--seeds", "3"],
    "TEXT_RUN": ["language", "--folder", "data/stories", "--window", "66"],
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory) -> Path:
    """A folder to call commands in, with a text, a run, a language model, and the recorded results."""
    folder = tmp_path_factory.mktemp("workspace")
    for name in ("results", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("weights"))
    for code in itertools.chain(*map(python_in, GUIDES)):
        if name := FILE.match(code):
            (folder / name[1]).write_text(code)
    with contextlib.chdir(folder):
        assert main(["prepare", "stories"]) == 0
        for name, task in (*RUNS.items(), ("runs", RUNS["RUN"])):
            assert main(["train", *SMALLER["train"].split(), *task, "--out", name]) == 0
    return folder


def small_config(small: dict[str, int], *arguments: Any, **settings: Any) -> RunConfig:
    return config_of(*arguments, **{**settings, **small})


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_readme_and_the_guides_runs(command, workspace, monkeypatch):
    monkeypatch.chdir(workspace)
    (run,), (text_run,) = (list((workspace / name).glob("*/*")) for name in RUNS)
    words = [*shlex.split(command.replace("...", "")), *shlex.split(SMALLER.get(command.split()[0], ""))]
    if "--phases" in words:  # it has the steps of each phase
        words[words.index("--phases") + 1] = "embeddings:1,all:1"
        del words[words.index("--steps") : words.index("--steps") + 2]
    if "--shift" in words:  # its own seeds pair up with the run's
        last = len(words) - words[::-1].index("--seeds") - 1
        del words[last : last + 2]
    if "--embedding-rank" in words:  # below the small width
        words += ["--embedding-rank", "4"]
    if "profile" in words:
        words = words[: words.index("--seconds")]
    if words[0] == "reproduce" and "--list" in words:
        words.remove("--dry-run")
    if "--resume" in words:
        monkeypatch.setattr("icecore.training.run.train_run", interrupt)
        assert main([word for word in words if word != "--resume"]) == 130
        monkeypatch.undo()
        monkeypatch.chdir(workspace)
    places = {"RUN": text_run if words[0] == "sample" else run, "DIR": workspace / "results"}
    places |= {"DIR": workspace / "new"} if words[0] in ("extract", "export", "analyze") else {}
    places |= {"DIR": workspace / "exported"} if words[0] == "export" else {}
    if words[0] == "track":
        thaw = ["--from", str(run), "--trainable", "all", *SMALLER["train"].split(), "--out", "thawed"]
        assert main(["train", "needle", *thaw]) == 0
        places["RUN"] = next((workspace / "thawed").glob("*/*"))
    if words == ["playground", "--out", "page.html"]:  # its own runs take minutes
        short = {task: {**settings, "steps": 2, "warmup_steps": 1} for task, settings in demo.played_runs().items()}
        monkeypatch.setattr(demo, "played_runs", lambda: short)
    if words[0] == "bench":  # the paper's batches take seconds a step
        for module, batch in (("train", 16), ("language", 1)):
            small = {"batch": batch, "steps": 500, "warmup_steps": 5}
            monkeypatch.setattr(f"icecore.bench.{module}.config_of", functools.partial(small_config, small))
    assert main([str(places.get(word, word)) for word in words]) == 0


@pytest.mark.parametrize("code", [code for guide in GUIDES for code in python_in(guide) if not FILE.match(code)])
def test_code_of_the_guides_runs(code, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    exec(made_small(code), {})


def interrupt(*_arguments: object, **_settings: object) -> None:
    raise Interrupted("interrupted after step 0")


SHORT = Training(steps=3, lr=1e-2)
SMALL = (
    LaptopRecipe(ModularAddition(modulus=11), 32, SHORT, SHORT, SHORT, SHORT, SHORT),
    LaptopRecipe(Needle(max_pairs=2, values=9, vocabulary=20, test_size=20), 16, SHORT, SHORT, SHORT, SHORT, SHORT),
)


def test_the_demo_ends_in_a_table_a_picture_and_json(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(demo, "RECIPES", SMALL)
    monkeypatch.setattr(demo, "UNEMBED_STEPS", 3)
    assert main(["demo", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "Random, 3 seeds" in out
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert main(["demo", "--out", str(tmp_path), "--markdown"]) == 0
    assert capsys.readouterr().out.startswith(
        "| task | baseline | U only | Random, 3 seeds | Normal, 3 seeds |\n| --- |"
    )
    assert main(["demo", "--out", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [row["task"] for row in result["rows"]] == ["modular-addition", "needle"]
    for row in result["rows"]:
        assert set(row) == {"task", "baseline", "unembed_only", "random", "normal"}
        assert len(row["random"]) == 3
        assert len(row["normal"]) == 3
    assert result["seconds"] < 60, "what was trained is not trained again"


def test_the_demo_trains_what_it_says():
    for size in demo.RECIPES:
        runs = demo.runs_of(size)
        assert {name: run["trainable"] for name, run in runs.items()} == {
            "random": "embeddings",
            "normal": "all",
            "unembed_only": "unembed",
        }
    assert demo.total_steps() == sum(
        3 * size.random.steps + 3 * size.normal.steps + demo.UNEMBED_STEPS for size in demo.RECIPES
    )


def test_the_demo_has_the_size_that_the_readme_says():
    assert Transformer(width=128, layers=2, heads=4, init="matched") == demo.MODEL
    assert demo.total_steps() == 3 * (4000 + 400 + 650 + 700 + 800 + 600 + 400 + 300) + 4 * 300


def test_the_demos_baseline_is_the_best_rule(monkeypatch, tmp_path):
    short = Training(steps=3, lr=1e-2)
    task = Parentheses(max_pairs=4, min_length=4, test_size=50)
    monkeypatch.setattr(demo, "RECIPES", (LaptopRecipe(task, 16, short, short, short, short, short),))
    monkeypatch.setattr(demo, "UNEMBED_STEPS", 3)
    (row,) = demo.run_demo(tmp_path, lambda *_: lambda _: None)
    baselines = task.baselines()
    assert row.baseline == baselines["equal_counts_and_ends"] > baselines["majority"]
