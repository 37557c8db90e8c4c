"""`icecore extract`: copy some seeds of a run into a new run."""

from pathlib import Path

import typer

from icecore.cli.output import say
from icecore.cli.run_folders import RUN, SEEDS_OF_RUN, TRUST, seeds_of_run


def command(
    run: Path = RUN,
    seeds: str = typer.Option("3", help=SEEDS_OF_RUN),
    out: Path = typer.Option(..., help="The new run is saved in OUT/TASK/ID."),
    half: bool = typer.Option(
        False, "--half", help="Save weights as float16, about 3 digits: half the size; close answers may change."
    ),
    trust: bool = TRUST,
) -> None:
    """Copy some seeds of a run, with their snapshots, into a new run.

    [bold]Examples[/bold]

    icecore extract runs/needle/0123456789ab --seeds 3 --out extracted
    icecore extract RUN --seeds 0,3,7 --out extracted --half
    """
    from icecore.training import RunFolder

    folder = RunFolder(run, trust)
    chosen = seeds_of_run(seeds, folder.complete_config().seeds)
    extracted = folder.extract(chosen, out, half)
    say(f"seeds {', '.join(map(str, chosen))} of {run} in {extracted.path}")
