"""Argument and check of the commands that read a run's folder."""

from pathlib import Path

import typer

from icecore.errors import require

RUN = typer.Argument(..., metavar="RUN", help="A run's folder, such as runs/needle/0123456789ab.")


def require_elsewhere(run: Path, *files: Path | None) -> None:
    """Raise if a file would be written into the run's folder: only training writes there."""
    for file in files:
        is_within = file is not None and run.resolve() in (file.resolve(), *file.resolve().parents)
        require(not is_within, f"{run} holds only the run: write {file} elsewhere")
