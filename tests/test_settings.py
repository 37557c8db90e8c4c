"""Settings of cells that are remembered between commands: never wrong, and never in the way."""

import json
import sys

import pytest

from icecore.cli import main
from icecore.paper import EXPERIMENTS, settings
from icecore.paper.settings import remembered_settings
from icecore.store.folders import cache_folder
from icecore.training import Precision


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache_folder()


def cell():
    return EXPERIMENTS["table1"].at("paper", "released")[0]


def test_a_remembered_setting_is_the_computed_one(folder):
    computed = cell().setting
    for _ in range(2):
        with remembered_settings():
            assert cell().setting == computed
    (file,) = folder.iterdir()
    assert json.loads(file.read_text()) == {"released: modular-addition, Random 1024": computed}


def test_another_source_remembers_nothing(folder, monkeypatch):
    with remembered_settings():
        _ = cell().setting
    (old,) = folder.iterdir()
    monkeypatch.setattr(settings, "source", lambda: "changed")
    with remembered_settings():
        assert settings.remembered == {}
        _ = cell().setting
    assert [file.name for file in folder.iterdir()] == ["settings-changed.json"]
    assert not old.exists()


@pytest.mark.parametrize("content", [b"", b"\xff", b"[1]", b'{"a": 1}', b'{"a": '])
def test_a_damaged_file_remembers_nothing(folder, content):
    with remembered_settings():
        _ = cell().setting
    (file,) = folder.iterdir()
    file.write_bytes(content)
    with remembered_settings():
        assert cell().setting == cell().made.setting


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch, capsys):
    for name in ("file", "runs.jsonl"):
        (tmp_path / name).write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "runs.jsonl").touch()
    assert main(["claims", "table9", "--results", str(tmp_path), "--grid"]) == 0
    assert "needle" in capsys.readouterr().out


def test_a_laptops_settings_are_computed(folder):
    with remembered_settings():
        _ = EXPERIMENTS["table1"].at("laptop", "released")[0].setting
    assert not folder.exists()


def test_a_relative_cache_folder_is_ignored(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "somewhere")
    assert cache_folder().is_absolute()


def test_the_precisions_of_records_are_those_of_training():
    from icecore.analysis import moments
    from icecore.paper import shares
    from icecore.store.record_schema import PRECISIONS

    assert tuple(map(str, Precision)) == PRECISIONS
    assert moments.POSITIONS == shares.POSITIONS
    assert "torch" in sys.modules, "which is why they are written down twice"
