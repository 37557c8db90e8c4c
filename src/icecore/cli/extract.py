"""`icecore extract`: some seeds of a run, as a run of its own."""

from pathlib import Path

import typer

from icecore.cli.run_folders import RUN
from icecore.cli.train import parse_seeds
from icecore.errors import require


def command(
    run: Path = RUN,
    seeds: str = typer.Option("3", help="How many seeds (3: the run's first three), or which (0,3,7)."),
    out: Path = typer.Option(..., help="Where to: the new run gets a folder of its own under it."),
    half: bool = typer.Option(
        False, "--half", help="16 bits per number, about 3 digits: half the size, and an answer on the edge may change."
    ),
) -> None:
    """Copy some seeds of a finished run into a run of its own, which every command can load."""
    from icecore.training import RunFolder

    folder, chosen = RunFolder(run), parse_seeds(seeds)
    if "," not in seeds:
        there = folder.complete_config().seeds
        require(len(chosen) <= len(there), f"the run has {len(there)} seeds, not {len(chosen)}: {list(there)}")
        chosen = there[: len(chosen)]
    extracted = folder.extract(chosen, out, half)
    print(f"seeds {', '.join(map(str, chosen))} of {run} in {extracted.path}")
