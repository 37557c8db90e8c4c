"""Every test runs with shapes and types of the package checked at its boundaries."""

from pathlib import Path

from jaxtyping import install_import_hook

import icecore

# Where tensors are: typer tells no true types. Triton reads the source of its kernels, which must stay as it is.
MODELS = Path(icecore.__file__).parent / "models"
CHECKED = [f"icecore.models.{file.stem}" for file in MODELS.glob("*.py") if file.stem != "__init__"]
install_import_hook(["icecore.tasks", *CHECKED], "beartype.beartype")
