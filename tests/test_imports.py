"""Imports go downward only, the command line is instant, and its threads wait without spinning."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "icecore"

# From the bottom up. A module may import from lower rows and from its own package, not from its row's others.
LAYERS = [
    {"errors"},
    {"seeding", "convex", "store", "process", "signals", "user_code"},
    {"drawing"},
    {"tasks", "models", "text"},
    {"training", "analysis"},
    {"sweeps", "bench", "constructions"},
    {"reporting"},
    {"paper"},
    {"page"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_packages(path: Path) -> set[str]:
    """The parts of icecore that a file imports, wherever in the file it does."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = [
                f"{node.module}.{alias.name}" if node.module == "icecore" else str(node.module) for alias in node.names
            ]
        found |= {name.split(".")[1] for name in names if name.startswith("icecore.")}
    return found - {"__version__"}


def test_every_module_has_a_layer():
    packages = {package_of(path) for path in SOURCE.rglob("*.py")} - {"__init__"}
    assert packages == set(LEVEL)


def test_imports_go_downward_only():
    wrong = [
        f"{path.relative_to(SOURCE)} imports {other}"
        for path in SOURCE.rglob("*.py")
        for other in imported_packages(path)
        if package_of(path) != "__init__" and other != package_of(path) and LEVEL[other] >= LEVEL[package_of(path)]
    ]
    assert wrong == []


@pytest.mark.parametrize("command", [["--help"], ["reproduce", "--list"], ["claims", "table1", "--grid"]], ids=str)
def test_what_needs_no_torch_does_not_import_it(command, monkeypatch, tmp_path):
    """Claims do so only the second time, when they remember the settings of cells."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    run = f"import sys, icecore.cli as c; assert c.main({command}) == 0; print('torch' in sys.modules)"
    found = [
        subprocess.run([sys.executable, "-c", run], cwd=SOURCE.parents[1], check=True, capture_output=True, text=True)
        for _ in range(2)
    ]
    assert found[1].stdout.splitlines()[-1] == "False"
    assert found[0].stdout.splitlines()[:-1] == found[1].stdout.splitlines()[:-1]


def test_a_run_does_not_import_torchs_compiler(tmp_path):
    """It takes a second, and torch's own optimizers import it."""
    run = """
import sys
from icecore.cli import main
tiny = "--max-pairs 2 --values 9 --vocabulary 20 --test-size 20 --width 8 --steps 2 --batch 8 --warmup-steps 1"
assert main(["train", "needle", *tiny.split(), "--device", "cpu"]) == 0
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", run], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize(("given", "policy"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")], ids=str)
def test_threads_wait_without_spinning_unless_the_user_says_otherwise(given, policy):
    """OpenMP reads it when torch is imported, so it must be there before."""
    run = """
import os, sys
from icecore.__main__ import run
class Watching:
    def find_spec(self, name, *_):
        if name == "torch":
            print(os.environ.get("OMP_WAIT_POLICY"), flush=True)
            os._exit(0)
sys.meta_path.insert(0, Watching())
sys.argv = ["icecore", "tasks", "needle"]
run()
"""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"} | given
    done = subprocess.run([sys.executable, "-c", run], check=True, capture_output=True, text=True, env=environment)
    assert done.stdout == f"{policy}\n"
