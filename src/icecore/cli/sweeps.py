"""Flags, progress and warnings shared by the commands that run sweeps or read their records."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from icecore.cli.options import OUTPUT_PANEL
from icecore.cli.output import say_aside
from icecore.cli.progress import sweep_progress
from icecore.errors import InputError, printable_line, require, unknown_name

if TYPE_CHECKING:
    from icecore.sweeps.runner import Job
    from icecore.training import ProgressCallback


class ScaleName(StrEnum):
    paper = "paper"
    laptop = "laptop"


NAMES = typer.Argument(None, metavar="NAME", help="Tables and figures, or all. See: icecore reproduce --list.")
SCALE = typer.Option(ScaleName.laptop, help="paper: the paper's own size. laptop: the same claims on two cores.")
PRESET = typer.Option(
    "released",
    help="Whose settings: released (the authors' scripts), unfiltered (the same, with test items left in the training "
    "data), reconstructed (unfiltered, with the batch of two GPUs and the text's rate for LSTMs) or paper (the paper's "
    "text).",
)
RESULTS = typer.Option(None, help="Folder of the records. Default: results; for laptop, runs.")
MOST_SEEDS = 10_000  # per cell
DEFAULT_RESULTS = {ScaleName.paper: Path("results"), ScaleName.laptop: Path("runs")}
WAYS_OUT = {
    ScaleName.paper: "run this in icecore's repository, or name a folder with --results",
    ScaleName.laptop: "icecore reproduce makes it, or name a folder with --results",
}
GRID = typer.Option(
    False,
    "--grid",
    help="Print tables as the paper does: one row per task, our median (the paper's number).",
    rich_help_panel=OUTPUT_PANEL,
)


def require_preset(preset: str) -> None:
    from icecore.paper.scales import PRESETS

    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)


def require_results(folder: Path, scale: ScaleName) -> None:
    """Raise unless the folder holds records: without them, all claims would be "not run"."""
    from icecore.store import INSIDE
    from icecore.store.records import NAME

    require(folder.is_dir(), f"there is no {folder}/ here; {WAYS_OUT[scale]}")
    has_records = any((folder / name).exists() for name in (NAME, INSIDE))
    require(has_records, f"there are no records in {folder}: {folder / NAME} is missing; {WAYS_OUT[scale]}")


def experiment_names(names: Sequence[str]) -> list[str]:
    """Return the named tables and figures that can be run; `all` is all of those."""
    from icecore.paper import named

    return [experiment.name for experiment in named(names)]


@contextlib.contextmanager
def jobs_progress(
    populations: "Sequence[Job]",
) -> "Iterator[tuple[Callable[[Job], ProgressCallback], Callable[[Job, list[float]], None]]]":
    """Yield the callbacks of a runner: they show populations as they begin, train and end."""
    with sweep_progress(sum(population.seed_steps for population in populations)) as progress:

        def progress_of(population: "Job") -> "ProgressCallback":
            return progress.begin(population.label, population.seed_steps)

        def on_done(population: "Job", accuracy: list[float]) -> None:
            if not accuracy:  # it was not needed
                progress.drop(population.seed_steps)
                return
            values = " ".join(f"{value:.4f}" for value in accuracy)
            progress.end(f"{population.label}: accuracy {values}", population.seed_steps)

        yield progress_of, on_done


def parse_rates(text: str | None) -> list[float]:
    """Read `1e-3` or `1e-3,5e-3`."""
    try:
        return list(dict.fromkeys(float(part) for part in text.split(",") if part.strip())) if text is not None else []
    except ValueError:
        raise InputError(f"--lr must be a number or several with commas, such as 1e-3,5e-3, got '{text}'") from None


@contextlib.contextmanager
def jobs_logged(
    log: Sequence[str], runs: Path, device: str, precision: str, progress_of: "Callable[[Job], ProgressCallback]"
) -> "Iterator[Callable[[Job], ProgressCallback | None]]":
    """Yield a progress_of whose callbacks also log to the named trackers."""
    from icecore.training import pick_device, pick_precision
    from icecore.training.trackers import following

    with following(log, runs) as followed:

        def logged(job: "Job") -> "ProgressCallback | None":
            chosen = pick_precision(precision, pick_device(device), job.cell.model)
            return followed(job.cell.config(job.seeds, chosen), progress_of(job))

        yield logged


SAID: set[str] = set()  # warnings that this command has printed
WIDE = 512  # slow on a CPU from here


def warn(message: str) -> None:
    """Print a warning on standard error, once."""
    if message not in SAID:
        SAID.add(message)
        say_aside("warning:", printable_line(message))


def warn_of_width(width: int, device: str, way_out: str) -> None:
    from icecore.training import pick_device

    if width >= WIDE and pick_device(device).type == "cpu":
        warn(f"on a CPU, width {width:,} can take hours; {way_out}")
