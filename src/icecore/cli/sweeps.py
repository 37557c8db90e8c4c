"""What the commands of tables and figures share: scales, presets, names, and where results are."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from icecore.cli.progress import sweep_progress
from icecore.errors import unknown_name

if TYPE_CHECKING:
    from icecore.sweeps.runner import Job
    from icecore.training import ProgressCallback


class ScaleName(StrEnum):
    paper = "paper"
    laptop = "laptop"


NAMES = typer.Argument(None, metavar="NAME...", help="Tables and figures, or all; icecore reproduce --list names them.")
SCALE = typer.Option(ScaleName.laptop, help="paper: the paper's own size. laptop: the same claims on two cores.")
PRESET = typer.Option(
    "released",
    help="Whose settings: the authors' scripts' (released), those of their README's commands, whose stream keeps test "
    "items (readme), or the paper's text's (paper).",
)
RESULTS = typer.Option(None, help="Folder of the records. Default: results at the paper's scale, runs at a laptop's.")
MOST_SEEDS = 10_000  # of a cell
DEFAULT_RESULTS = {ScaleName.paper: Path("results"), ScaleName.laptop: Path("runs")}
GRID = typer.Option(False, "--grid", help="As the paper prints it: a row a task, our median and (the paper's number).")


def require_preset(preset: str) -> None:
    from icecore.paper.scales import PRESETS

    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)


def experiment_names(names: Sequence[str]) -> list[str]:
    """Return the named tables and figures that can be run; `all` is all of those."""
    from icecore.paper import named

    return [experiment.name for experiment in named(names)]


@contextlib.contextmanager
def jobs_progress(
    populations: "Sequence[Job]",
) -> "Iterator[tuple[Callable[[Job], ProgressCallback], Callable[[Job, list[float]], None]]]":
    """What a runner tells of populations as they begin, train and end, shown while the block runs."""
    with sweep_progress(sum(population.seed_steps for population in populations)) as progress:

        def watch_of(population: "Job") -> "ProgressCallback":
            return progress.begin(population.label, population.seed_steps)

        def on_done(population: "Job", accuracy: list[float]) -> None:
            values = " ".join(f"{value:.4f}" for value in accuracy)
            progress.end(f"{population.label}: accuracy {values}", population.seed_steps)

        yield watch_of, on_done


SAID: set[str] = set()  # by this command
WIDE = 512  # for a CPU


def warn(message: str) -> None:
    """On standard error, once."""
    if message not in SAID:
        SAID.add(message)
        print(f"warning: {message}", file=sys.stderr)


def warn_of_width(width: int, device: str, way_out: str) -> None:
    from icecore.training import pick_device

    if width >= WIDE and pick_device(device).type == "cpu":
        warn(f"on a CPU, width {width:,} can take hours; {way_out}")
