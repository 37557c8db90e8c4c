"""Imports go downward only, and the command line is instant."""

import ast
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "icecore"

# From the bottom up. A module may import from lower rows and from its own package, not from its row's others.
LAYERS = [
    {"errors"},
    {"seeding", "store", "process", "own_files"},
    {"tasks", "models", "text"},
    {"training", "analysis"},
    {"sweeps", "bench"},
    {"reporting"},
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


def test_help_does_not_import_torch():
    code = "import sys, icecore.cli as c; c.main(['--help']); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
