"""Every test runs with shapes and types of the package checked at its boundaries, where beartype is installed."""

import importlib.util
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

import icecore

# Where tensors are: typer tells no true types. Triton reads the source of its kernels, which must stay as it is.
MODELS = Path(icecore.__file__).parent / "models"
CHECKED = [f"icecore.models.{file.stem}" for file in MODELS.glob("*.py") if file.stem != "__init__"]
if importlib.util.find_spec("beartype") is not None:  # a GPU's machine may lack it, and its tests run all the same
    install_import_hook(["icecore.tasks", *CHECKED], "beartype.beartype")


def pytest_collection_finish(session: pytest.Session) -> None:
    """The kernels' tests in Triton's interpreter take a minute of one core, beside the others."""
    for item in session.items:
        if item.name == "test_the_kernels_in_tritons_interpreter" and not session.config.option.collectonly:
            module = item.getparent(pytest.Module).obj  # type: ignore[union-attr]
            if not module.HAS_GPU and not module.INTERPRETED:
                module.begin_in_the_interpreter()
