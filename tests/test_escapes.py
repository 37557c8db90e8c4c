"""Control characters in names, devices, commits and arguments are shown as text, never sent to the terminal."""

import json

import pytest
from small_runs import copied, train_whole

from icecore.cli import main
from icecore.cli.output import with_progress
from icecore.cli.progress import live_bar, stage_progress
from icecore.errors import printable, printable_line
from icecore.reporting.table import Table
from icecore.training import Progress

whole = pytest.fixture(scope="module")(train_whole)
ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp.exe\u2066\r\x7f"
CONTROLS = {*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)} - {9, 10}


def shown(capsys, *arguments: object) -> str:
    """Return what a command prints on both outputs; no control character may be among it."""
    main([str(argument) for argument in arguments])
    text = "".join(capsys.readouterr())
    assert not CONTROLS & set(map(ord, text))
    return text


@pytest.mark.parametrize("columns", [None, "80"], ids=["pipe", "terminal"])
@pytest.mark.parametrize("name", ["device", "commit", "command"])
def test_escapes_in_a_result_are_text(whole, tmp_path, capsys, monkeypatch, name, columns):
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    run = copied(whole, tmp_path)
    result = json.loads((run / "result.json").read_text()) | {name: ESCAPES}
    (run / "result.json").write_text(json.dumps(result))
    assert "\\x1b[2J" in shown(capsys, "show", run)
    for command in (["show", run, "--json"], ["show", tmp_path], ["evaluate", run, "--device", "cpu"]):
        shown(capsys, *command)


@pytest.mark.parametrize("part", ["task", "model"])
def test_escapes_in_a_config_are_text(whole, tmp_path, capsys, part):
    run = copied(whole, tmp_path)
    config = json.loads((run / "config.json").read_text())
    config[part]["name"] = ESCAPES
    (run / "config.json").write_text(json.dumps(config))
    assert "\\x1b[2J" in shown(capsys, "show", run)
    shown(capsys, "show", tmp_path)
    assert "\\x1b" in shown(capsys, "evaluate", run)


def test_escapes_in_a_folders_name_are_text(whole, tmp_path, capsys):
    run = copied(whole, tmp_path)
    run = run.rename(run.with_name(f"a{ESCAPES}b"))
    assert "\\x1b[2J" in shown(capsys, "show", tmp_path)
    assert "\\x1b[2J" in shown(capsys, "evaluate", run)


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", ESCAPES],
        [ESCAPES],
        ["tasks", ESCAPES],
        ["evaluate", f"nowhere{ESCAPES}"],
        ["train", "needle", f"--{ESCAPES}", "1"],
        ["train", "needle", "--trainable", ESCAPES],
        ["claims", ESCAPES],
    ],
)
def test_escapes_in_arguments_are_text(capsys, arguments):
    assert "\\x1b[2J" in shown(capsys, *arguments)


def test_escapes_in_a_table_are_text_in_every_format():
    table = Table(ESCAPES, ("a", ESCAPES), [("x|y", f"{ESCAPES}\nnext")])
    for text in (table.markdown(), table._repr_html_(), table.csv()):
        assert not CONTROLS & set(map(ord, text))
        assert "\\x1b[2J" in text
    assert table.markdown().count("\n") == 2, "a line break in a cell ends no row"
    assert "x\\|y" in table.markdown()


def test_text_of_every_alphabet_stays_as_it_is():
    text = "Größe, 大きさ, مقاس, 🧊"
    assert printable(text) == printable_line(text) == text
    assert printable_line("a\nb\tc") == "a\\nb\\tc"


def test_a_name_is_no_markup_in_a_bar_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    for name in ("[/x]", "[link=http://somewhere]x"):
        with live_bar(name) as on_progress:
            on_progress(Progress(1, 2, [0.5], None))
        assert list(with_progress([1], 1, name)) == [1]
        with stage_progress() as watch:
            watch(name, 1, 2)
    assert "http://somewhere\x1b" not in capsys.readouterr().err
