"""Every test runs with shapes and types of the package checked at its boundaries."""

from jaxtyping import install_import_hook

install_import_hook(
    ["icecore.tasks", "icecore.models"], "beartype.beartype"
)  # where tensors are; typer tells no true types
