"""`icecore extract`: copy some seeds of a run into a new run."""

from pathlib import Path

import typer

from icecore.cli.output import say
from icecore.cli.run_folders import RUN, TRUST
from icecore.cli.train import parse_seeds
from icecore.errors import require


def command(
    run: Path = RUN,
    seeds: str = typer.Option("3", help="How many seeds (3: the run's first three), or which (0,3,7)."),
    out: Path = typer.Option(..., help="The new run is saved in OUT/TASK/ID."),
    half: bool = typer.Option(
        False, "--half", help="Save weights as float16, about 3 digits: half the size; close answers may change."
    ),
    trust: bool = TRUST,
) -> None:
    """Copy some seeds of a run into a new run.

    [bold]Examples[/bold]

    icecore extract runs/needle/0123456789ab --seeds 3 --out extracted
    icecore extract RUN --seeds 0,3,7 --out extracted --half
    """
    from icecore.training import RunFolder

    folder, chosen = RunFolder(run, trust), parse_seeds(seeds)
    if "," not in seeds:
        there = folder.complete_config().seeds
        require(len(chosen) <= len(there), f"the run has {len(there)} seeds, not {len(chosen)}: {list(there)}")
        chosen = there[: len(chosen)]
    extracted = folder.extract(chosen, out, half)
    say(f"seeds {', '.join(map(str, chosen))} of {run} in {extracted.path}")
