"""Files, commands and flags that README and docs name exist; docstrings say what a thing does."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from icecore.cli import app
from icecore.models import MODELS, settings_of_model
from icecore.tasks import TASKS
from icecore.tasks.loading import setting_fields

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/icecore"
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = {path.name for top in (ROOT, PACKAGE) for path in top.iterdir() if path.is_dir()} - {"runs"}
# A user's, a run's, the authors', and placeholders such as FILE.py.
NOT_OURS = re.compile(r"(runs/.+/)?(my_\w+\.py|(task|model)\.py|experiment_stream(_new)?\.py)|(.*/)?[A-Z]+\.\w+")
OTHER_PROGRAMS = {"--nproc-per-node"}


def code_of(document: Path) -> str:
    """The words in backticks and in code blocks, without comments."""
    parts = re.split(r"^```.*$", document.read_text(), flags=re.MULTILINE)
    inline = [word for prose in parts[::2] for word in re.findall(r"`([^`\n]+)`", prose)]
    return "\n".join([*inline, *(re.sub(r"#.*", "", block) for block in parts[1::2])])


def exists(name: str) -> bool:
    if "/" in name:
        return any((top / name).exists() for top in (ROOT, PACKAGE, ROOT / "results"))
    return (ROOT / name).exists() or any(next((ROOT / tree).rglob(name), None) for tree in ("src", "tests", "examples"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_a_document_names_exist(document):
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()) if "://" not in link]
    assert [link for link in links if not (document.parent / link).exists()] == []
    names = re.findall(r"[\w.-]+(?:/[\w.-]+)*", code_of(document))
    files = [name for name in names if name.endswith(".py") or ("." in name and name.split("/")[0] in FOLDERS)]
    files = [name for name in files if not NOT_OURS.fullmatch(name)]
    assert [name for name in files if not exists(name)] == []


def test_every_folder_of_the_package_is_in_the_layout():
    layout = (ROOT / "docs/layout.md").read_text()
    folders = {path.parent.name for path in PACKAGE.rglob("*.py")} - {PACKAGE.name}
    assert [folder for folder in folders if f"  {folder}/" not in layout] == []


def known_commands() -> dict[str, Any]:
    top = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    return top | {name: each for one in top.values() for name, each in getattr(one, "commands", {}).items()}


def known_flags() -> set[str]:
    """The flags of all commands, and the settings of tasks and models, which are flags too."""
    settings = [field.name for task in TASKS.values() for field in setting_fields(task)]
    settings += [name for model in MODELS.values() for name in settings_of_model(model)]
    each = [parameter for command in known_commands().values() for parameter in command.params]
    flags = {flag for parameter in each for flag in (*parameter.opts, *parameter.secondary_opts)}
    return flags | {f"--{name.replace('_', '-')}" for name in settings} | {"--help"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_and_flags_that_a_document_names_exist(document):
    assert (
        set(re.findall(r"^(?:\$ )?icecore ([a-z]+)", code_of(document), re.MULTILINE)) - known_commands().keys()
        == set()
    )
    assert set(re.findall(r"--[a-z][\w-]*", code_of(document))) - known_flags() - OTHER_PROGRAMS == set()


def test_docstrings_start_with_a_verb_or_a_noun():
    found = []
    for path in (path for tree in ("src", "tests", "examples") for path in (ROOT / tree).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                first = (ast.get_docstring(node) or "-").split()[0]
                if first in ("Of", "What", "Whether", "How", "Where", "Which", "That", "Those", "So", "Also"):
                    found.append(f"{path.relative_to(ROOT)}: {ast.get_docstring(node)}")
    assert found == []
