"""Argument and check of the commands that read a run's folder."""

from pathlib import Path

import typer

from icecore.cli.train import parse_seeds
from icecore.errors import require
from icecore.store.reading import resolved

RUN = typer.Argument(..., metavar="RUN", help="A run's folder, such as runs/needle/0123456789ab.")
TRUST = typer.Option(
    False, "--trust", help="Execute the task.py or model.py that came with the run; read it first. Yours need no flag."
)


SEEDS_OF_RUN = "How many seeds (3: the run's first three), or which (0,3,7; 3, is seed 3 alone)."


def seeds_of_run(text: str, there: tuple[int, ...]) -> tuple[int, ...]:
    """Return the chosen seeds of a run: `3` is its first three, `0,3,7` is those."""
    chosen = parse_seeds(text)
    if "," in text:
        return chosen
    require(len(chosen) <= len(there), f"the run has {len(there)} seeds, not {len(chosen)}: {list(there)}")
    return there[: len(chosen)]


def require_elsewhere(run: Path, *files: Path | None) -> None:
    """Raise if a file would be written into the run's folder: only training writes there."""
    for file in files:
        is_within = file is not None and resolved(run) in (resolved(file), *resolved(file).parents)
        require(not is_within, f"{run} holds only the run: write {file} elsewhere")
