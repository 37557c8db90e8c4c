"""Bodies in files of one's own, on the command line: kept with their runs, checked first, one line if they break."""

import json
from pathlib import Path
from typing import Any

import pytest
from own_bodies import LOOKING, SHIFTED
from small_runs import SHORT, TASK, Stop, stop_after

import icecore as ice
from icecore.cli import main
from icecore.models import find_model
from icecore.training.presets import preset_model

FLAGS = [
    "--max-pairs",
    "3",
    "--values",
    "8",
    "--vocabulary",
    "20",
    "--test-size",
    "100",
    "--steps",
    "4",
    "--batch",
    "8",
]
FLAGS += ["--warmup-steps", "1", "--width", "16", "--device", "cpu", "--out", "runs", "--json"]


def trained_by_command(capsys, *flags: str) -> dict[str, Any]:
    assert main(["train", "needle", "--model", *flags, *FLAGS]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_a_body_in_a_file_trains_on_the_command_line_and_is_kept_with_its_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.py"
    file.write_text(SHIFTED)
    first = trained_by_command(capsys, "mine.py:Shifted")
    assert (Path(first["run"]) / "model.py").read_text() == SHIFTED
    moved = tmp_path / "elsewhere.py"
    file.rename(moved)
    assert main(["evaluate", first["run"], "--json"]) == 0, "its folder is all that a run needs"
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["accuracy"] == first["accuracy"]
    assert main(["extract", first["run"], "--seeds", "0,", "--out", "kept"]) == 0
    assert (tmp_path / "kept" / "needle" / first["run_id"] / "model.py").exists()
    capsys.readouterr()
    assert trained_by_command(capsys, "elsewhere.py")["run_id"] == first["run_id"], "where a file lies is no matter"
    assert trained_by_command(capsys, "elsewhere.py", "--by", "1.5")["run_id"] != first["run_id"]
    moved.write_text(SHIFTED.replace("+ self.by", "- self.by"))
    assert trained_by_command(capsys, "elsewhere.py")["run_id"] != first["run_id"], "another text is another model"
    copy = Path(first["run"]) / "model.py"
    copy.write_text(SHIFTED.replace("+", "-"))
    assert main(["evaluate", first["run"]]) == 2
    assert "is not the model of the run: the file has changed" in capsys.readouterr().err


def test_what_is_wrong_with_the_body_on_the_command_line_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(SHIFTED)
    (tmp_path / "taken.py").write_text(SHIFTED.replace('"shifted"', '"transformer"'))
    (tmp_path / "both.py").write_text(SHIFTED + SHIFTED.replace("Shifted", "Other") + "\nclass Helper: ...\n")
    (tmp_path / "clash.py").write_text(SHIFTED.replace("by: float", "values: float"))
    for model, more, message in (
        ("mine.py:Shiftet", [], "did you mean 'Shifted'?"),
        ("mine", [], "unknown model 'mine'"),
        ("lstn", [], "did you mean 'lstm'?"),
        ("none.py:A", [], "there is no file none.py"),
        ("mine:Shifted", [], "unknown model 'mine:Shifted'"),
        ("both.py", [], "name the class: both.py:CLASS (models in the file: Shifted, Other)"),
        ("both.py:Helper", [], "Helper in both.py must be a subclass of icecore.models.Model"),
        ("mine.py", ["--by", "much"], "by must be a number, got 'much'"),
        ("mine.py", ["--bye", "1"], "unknown flag of train needle 'bye'"),
        (
            "lstm",
            ["--by", "1"],
            "unknown flag of train needle 'by': icecore train --help and icecore tasks needle list",
        ),
        ("taken.py", [], "'transformer' is a model of icecore: Shifted needs a name of its own"),
        ("clash.py", [], "--values would be a setting of the task and of the model"),
    ):
        assert main(["train", "needle", "--model", model, *more, *FLAGS]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("error:") == 1
    assert not (tmp_path / "runs").exists()


ODD = {
    "no dataclass": ("@dataclass(frozen=True)\n", "", "Odd is not a dataclass: put @dataclass(frozen=True) above it"),
    "no width": ("    width: int = 16\n", "", "Odd has no field width: int"),
    "no name": ('    name: ClassVar[str] = "odd"\n', "", "has no name of letters"),
    "no roles": ("    roles", "    rules", "has no roles"),
    "no hidden": ("def hidden", "def hiden", "must define hidden"),
    "specs that fail": ("return {", "return None + {", "specs of Odd failed"),
    "a check that fails": (
        "    def specs",
        "    def __post_init__(self):\n        assert self.width == 3\n\n    def specs",
        "Odd cannot be created",
    ),
    "no JSON": (
        "width: int = 16",
        "width: int = 16\n    kind: object = torch.float32",
        "must be a number, a string or a tuple of these",
    ),
    "types that are not there": (
        "width: int = 16",
        "width: int = 16\n    kind: 'Path' = 'a'",
        "the types of Odd's fields",
    ),
    "a flag's name": (
        "width: int = 16",
        "width: int = 16\n    steps: int = 3",
        "train has a flag --steps: give the model's",
    ),
    "an error later": (
        "own = parameters",
        "assert not torch.is_grad_enabled()\n        own = parameters",
        "Odd failed before training (AssertionError",
    ),
    "another width": (
        "    def specs",
        "    def __post_init__(self):\n        object.__setattr__(self, 'width', 32)\n\n    def specs",
        "Odd must have the width it is given, 16; its width is 32",
    ),
    "specs that are drawn": ('"mix", self.scale', '"mix", float(torch.rand(1))', "has different specs each time"),
    "an initializer of another shape": (
        '"mix", self.scale',
        '"mix", lambda *_: torch.ones(3)',
        "the initializer of gate",
    ),
    "a negative scale": ('"mix", self.scale', '"mix", -1.0', "std must be a finite number of at least 0, got -1.0"),
    "an end of its own": ("own = parameters", "raise SystemExit\n        own = parameters", "(SystemExit"),
    "a file that is gone": (
        "own = par",
        "open('gone')\n        own = par",
        "Odd failed before training (FileNotFoundError",
    ),
    "too large": ("own = par", "torch.empty(2**50)\n        own = par", "Odd failed before training: out of memory"),
}


@pytest.mark.parametrize(("old", "new", "message"), ODD.values(), ids=ODD)
def test_odd_bodies_are_one_line_on_the_command_line(tmp_path, monkeypatch, capsys, old, new, message):
    monkeypatch.chdir(tmp_path)
    text = LOOKING.replace("SCALE", "0.0").replace("FIRST", "1").replace("Looking", "Odd").replace("looking", "odd")
    assert text.count(old) == 1
    (tmp_path / "odd.py").write_text(text.replace(old, new))
    assert main(["train", "needle", "--model", "odd.py:Odd", *FLAGS]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("error:") == 1


@pytest.mark.parametrize("raised", ["AssertionError", "OSError", "SystemExit"])
def test_a_body_that_fails_in_training_is_one_line(tmp_path, monkeypatch, capsys, raised):
    monkeypatch.chdir(tmp_path)
    text = LOOKING.replace("SCALE", "0.0").replace("FIRST", "1")
    (tmp_path / "late.py").write_text(
        text.replace("own = par", f"if len(tokens) > 3:\n            raise {raised}('too many')\n        own = par")
    )
    assert main(["train", "needle", "--model", "late.py:Looking", *FLAGS]) == 2
    assert f"late.py:Looking failed in training ({raised}: too many, in late.py line 23)" in capsys.readouterr().err
    flags = ["--widths", "16", "--seeds", "1", "--trainable", "all", *FLAGS]
    del flags[flags.index("--width") : flags.index("--width") + 2]
    assert main(["compare", "needle", "--model", "late.py:Looking", "--model", "transformer", *flags]) == 2
    shown = capsys.readouterr()
    failed = "failed: needle, Normal, looking 16, seed 0: looking failed in training"
    assert f"{failed} ({raised}: too many, in late.py line 23)" in shown.err
    assert [point["line"] for point in json.loads(shown.out.splitlines()[-1])["points"]] == ["Normal"], (
        "the rest went on"
    )


def test_settings_that_are_tuples_or_made_later_are_kept_and_gone_on_with(tmp_path):
    file = tmp_path / "tuples.py"
    fields = "width: int = 16\n    dims: tuple[int, ...] = (1, 2)\n    depth: int = field(init=False, default=2)"
    text = LOOKING.replace("SCALE", "0.0").replace("FIRST", "1").replace("width: int = 16", fields)
    file.write_text(text.replace("import dataclass", "import dataclass, field"))
    model = find_model(f"{file}:Looking")()
    with pytest.raises(Stop):
        ice.train(TASK, model, out=tmp_path, log_every=1, checkpoint_every=2, on_progress=stop_after(5), **SHORT)
    runs = ice.train(TASK, model, out=tmp_path, resume=True, log_every=1, checkpoint_every=2, **SHORT)
    assert vars(ice.load(str(runs.path), "cpu").config.model) == vars(model)


def test_a_body_has_its_own_defaults_not_the_papers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = LOOKING.replace("SCALE", "0.0").replace("FIRST", "1")
    (tmp_path / "own.py").write_text(text.replace("width: int = 16", "width: int = 16\n    init: str = 'orthogonal'"))
    run = trained_by_command(capsys, "own.py:Looking")["run"]
    assert json.loads((Path(run) / "config.json").read_text())["model"]["settings"]["init"] == "orthogonal"


def test_a_subclass_of_ours_has_its_own_defaults_too(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(SHIFTED.replace("by: float = 0.0", "by: float = 0.0\n    width: int = 32"))
    assert preset_model(TASK, find_model(f"{file}:Shifted"), "released") == {}


def test_a_subclass_that_computes_otherwise_is_looked_into_but_not_exported(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(SHIFTED)
    run = trained_by_command(capsys, "mine.py:Shifted", "--by", "2")["run"]
    assert main(["export", run, "exported"]) == 2
    assert "the model shifted cannot be exported" in capsys.readouterr().err
    assert main(["analyze", run, "--what", "variance,attention", "--items", "20"]) == 0
    assert "block1.stream" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "def hidden(self, parameters, tokens):\n        return super().hidden(parameters, tokens)",
            "shifted has no named activations",
        ),
        (
            "def hidden(self, parameters, tokens, hook=None):\n        return super().hidden(parameters, tokens)",
            "hidden of shifted does not pass block0.attention, block1.attention to its hook",
        ),
        (
            "def attend(self, parameters, block, x, hook):\n        return x",
            "hidden of shifted does not pass block0.attention, block1.attention to its hook",
        ),
    ],
)
def test_a_subclass_without_the_places_that_are_looked_at_says_so(tmp_path, monkeypatch, capsys, change, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(f"{SHIFTED}\n    {change}\n")
    run = trained_by_command(capsys, "mine.py:Shifted")["run"]
    assert main(["analyze", run, "--what", "attention", "--items", "20"]) == 2
    assert message in capsys.readouterr().err


def test_records_agree_wherever_a_file_lay(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(SHIFTED)
        flags = [flag for flag in FLAGS if flag not in ("--width", "16")]
        assert (
            main(
                [
                    "compare",
                    "needle",
                    "--model",
                    f"{folder}/mine.py:Shifted",
                    "--widths",
                    "16",
                    "--seeds",
                    "1",
                    "--trainable",
                    "all",
                    *flags,
                    "--out",
                    folder,
                ]
            )
            == 0
        )
    assert main(["results", "merge", "there", "--results", "here"]) == 0
    assert "0 records added" in capsys.readouterr().out
