"""`icecore reproduce`: the paper's tables and figures as commands."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from icecore.cli.claims import show_claims
from icecore.cli.options import ADDRESS, DEVICE, EXECUTOR, FORCE, GPUS, LOG, RUN_PANEL, Executor
from icecore.cli.output import (
    CSV,
    JSON_OPTION,
    MARKDOWN,
    counted,
    format_of,
    print_json,
    print_table,
    say,
    say_aside,
    say_wrapped,
)
from icecore.cli.sweeps import (
    DEFAULT_RESULTS,
    GRID,
    MOST_SEEDS,
    NAMES,
    PRESET,
    RESULTS,
    SCALE,
    ScaleName,
    experiment_names,
    jobs_logged,
    jobs_progress,
    parse_rates,
    require_preset,
    warn,
)
from icecore.errors import InputError, require, unknown_name
from icecore.reporting.table import Table

if TYPE_CHECKING:
    from icecore.paper.cells import PaperCell
    from icecore.sweeps.cells import Cell
    from icecore.sweeps.runner import Job


def reproduce_command(
    names: list[str] = NAMES,
    list_names: bool = typer.Option(False, "--list", help="List the tables and figures."),
    scale: ScaleName = SCALE,
    preset: str = PRESET,
    seeds: int = typer.Option(3, min=1, max=MOST_SEEDS, help="Seeds per cell; the paper has 10."),
    only: list[str] = typer.Option(
        [], help="Only cells whose label contains this text, such as 'needle, Random'. Repeatable; order matters."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="List the missing runs, and train nothing."),
    plan_for: str | None = typer.Option(
        None, metavar="DEVICE", help="With --dry-run: estimate for another benchmarked device, such as 'NVIDIA H200'."
    ),
    lr: str | None = typer.Option(
        None,
        help="For bodies and ladder: several learning rates, 1e-3,5e-3: each cell takes its best on validation items, "
        "with one seed, and keeps it. ladder has rates of its own.",
    ),
    at_once: int | None = typer.Option(
        None, min=1, help="Largest population: seeds that train at once.", rich_help_panel=RUN_PANEL
    ),
    device: str = DEVICE,
    force: bool = FORCE,
    precision: str = typer.Option("auto", help="auto, fp32, tf32 or bf16.", rich_help_panel=RUN_PANEL),
    executor: Executor = EXECUTOR,
    address: str | None = ADDRESS,
    gpus: float = GPUS,
    results: Path | None = RESULTS,
    runs: Path = typer.Option(
        Path("runs"), help="Where checkpoints and trained weights are saved.", rich_help_panel=RUN_PANEL
    ),
    text: Path | None = typer.Option(
        None, help="For fig4 and table5: a prepared text. Default: data/tinystories; for laptop, data/stories."
    ),
    log: list[str] = LOG,
    json: bool = JSON_OPTION,
    markdown: bool = MARKDOWN,
    csv: bool = CSV,
    grid: bool = GRID,
) -> None:
    """Train the missing runs of the paper's tables and figures.

    [bold]Examples[/bold]

    icecore reproduce --list
    icecore reproduce table1 --only 'needle, Random' --dry-run
    icecore reproduce table1 table2 --scale paper --seeds 10

    Recorded runs are not repeated; a killed sweep continues with the same command. Seeds that train at once, a
    population, are recorded as soon as they finish.
    """
    if list_names or not names:
        list_experiments()
        return
    import torch

    from icecore.store import Records
    from icecore.sweeps.cluster import run_on_ray
    from icecore.sweeps.cluster_choices import train_narrow_first_on_ray
    from icecore.sweeps.narrow_first import Sweep, needed, train_narrow_first
    from icecore.sweeps.runner import run_missing
    from icecore.training import device_name, pick_device, pick_precision
    from icecore.training.trackers import require_trackers

    require_trackers(log)
    require(not log or executor is Executor.local, "--log follows runs of this machine: drop it, or --executor ray")
    names = with_text(names, scale, text)
    cells = cells_of(names, scale, preset, only, text, rates_for(names, lr))
    results = results or DEFAULT_RESULTS[scale]
    records = Records(results, warn)
    if plan_for is None:
        where = pick_device(device)
    else:
        require(dry_run, "--plan-for needs --dry-run: a sweep runs on the machine that starts it")
        require(device == "auto", "--plan-for names the device: drop --device")
        require_bench(results, plan_for)
        where = torch.device("cpu" if plan_for.startswith("cpu") else "cuda")
    sweep = Sweep(seeds, records, runs, where.type, pick_precision(precision, where), at_once, force)
    cells = needed(cells, sweep)
    untried, populations = [job for cell in cells for job in sweep.untried(cell)], sweep.missing(cells)
    if dry_run:
        list_missing([*untried, *populations], results, plan_for or device_name(where), json)
        return
    started, finished = time.monotonic(), 0
    with (
        jobs_progress([*untried, *populations]) as (progress_of, show_done),
        jobs_logged(log, runs, device, precision, progress_of) as progress_of,
    ):

        def on_done(job: "Job", accuracy: list[float]) -> None:
            nonlocal finished
            finished += bool(accuracy)
            show_done(job, accuracy)

        if any(cell.rates for cell in cells) and executor is Executor.ray:
            failures = train_narrow_first_on_ray(cells, sweep, on_done, address, gpus)
        elif any(cell.rates for cell in cells):
            failures = train_narrow_first(cells, sweep, progress_of, on_done)
        elif executor is Executor.ray:
            failures = run_on_ray(populations, records, runs, where.type, sweep.precision, on_done, address, gpus)
        else:
            failures = run_missing(populations, records, runs, where.type, sweep.precision, progress_of, on_done)
    for failure in failures:
        say_aside(f"failed: {failure.label}: {failure.reason}")
    show_claims(experiment_names(names), scale, preset, results, json, format_of(markdown, csv), grid)
    if not json:
        say(f"{counted(finished, 'population')} in {time.monotonic() - started:.0f} s")
    if failures:
        tried = counted(finished + len(failures), "population")
        raise InputError(f"{len(failures)} of {tried} failed; see above, fix it and run again")


def rates_for(names: Sequence[str], lr: str | None) -> list[float]:
    """Return the learning rates to choose from, none without --lr."""
    from icecore.paper import EXPERIMENTS

    able = [name for name, experiment in EXPERIMENTS.items() if experiment.has_rates]
    others = [name for name in names if name not in able]
    require(
        lr is None or not others,
        f"--lr chooses rates for {', '.join(able)}; {' and '.join(others)} has the paper's: drop --lr, or reproduce "
        "it in a command of its own",
    )
    return parse_rates(lr)


def with_text(names: Sequence[str], scale: ScaleName, text: Path | None) -> list[str]:
    """Return the experiments. A missing text is prepared at laptop scale; otherwise `all` skips what needs it."""
    from icecore.cli.prepare import prepare_stories
    from icecore.paper import EXPERIMENTS
    from icecore.paper.scales import SCALES

    wanted = experiment_names(names)
    folder = text or Path(SCALES[scale].language.folder)
    in_need = [name for name in wanted if EXPERIMENTS[name].needs_text and not folder.exists()]
    if in_need and scale is ScaleName.laptop and text is None:
        prepare_stories(folder)
        say_aside(f"the stories that come with icecore are prepared in {folder}")
    elif in_need and list(names) == ["all"]:
        warn(
            f"without {folder}, these are left out: {', '.join(in_need)}; make it with icecore prepare, or give --text"
        )
        return [name for name in wanted if name not in in_need]
    return wanted


def cells_of(
    names: Sequence[str],
    scale: ScaleName,
    preset: str,
    only: Sequence[str],
    text: Path | None = None,
    rates: Sequence[float] = (),
) -> "list[Cell]":
    """Return the cells of the named tables and figures; with `only`, those whose label contains one of its texts.

    Those that choose their rate choose from `rates`, if given.
    """
    from icecore.paper import named
    from icecore.sweeps.cells import with_needed

    require_preset(preset)
    cells = [cell for experiment in named(names) for cell in experiment.at(scale, preset, text)]

    def made(cell: "PaperCell") -> "Cell":
        of_choice = cell.made.rates is not None and rates
        return replace(cell.made, rates=tuple(rates)) if of_choice else cell.made

    if not only:
        return with_needed(map(made, cells))
    for part in only:
        require(bool(part.strip()), "--only '' names no cell; drop it, or give part of a cell's label")
        known = ", ".join(cell.label for cell in cells[:3])
        require(
            any(part in cell.label for cell in cells), f"no cell's label contains '{part}'; labels are such as: {known}"
        )
    return with_needed(made(cell) for part in only for cell in cells if part in cell.label)


def list_experiments() -> None:
    from icecore.paper import EXPERIMENTS

    rows = [
        (
            name,
            experiment.title,
            "" if experiment.cells is None or experiment.needs_text else str(len(experiment.at("paper", "released"))),
            "needs a prepared text: --text" if experiment.needs_text else experiment.missing,
        )
        for name, experiment in EXPERIMENTS.items()
    ]
    print_table(
        Table(
            "The paper's tables and figures",
            ("name", "what", "cells", ""),
            rows,
            ("name", "what", ""),
            wraps=("what", ""),
        )
    )


def require_bench(results: Path, device: str) -> None:
    from icecore.sweeps.estimates import benched_devices

    known = benched_devices(results)
    require(
        bool(known),
        f"no time can be estimated: {results}/bench has no bench; on the device, icecore bench --out "
        f"{results}/bench/NAME.json makes one",
    )
    if device not in known:
        raise unknown_name(f"device with a bench in {results}/bench", device, known)


def list_missing(populations: "Sequence[Job]", results: Path, device: str, json: bool) -> None:
    from icecore.sweeps.estimates import bench_of

    bench = bench_of(results, device)
    if json:
        rows = [
            {
                "cell": one.cell.label,
                "seeds": one.seeds,
                "seed_steps": one.seed_steps,
                "seconds": bench and bench.seconds(one),
            }
            for one in populations
        ]
        print_json({"missing": rows})
        return
    total = 0.0
    for population in populations:
        seconds = None if bench is None else bench.seconds(population)
        total += seconds or 0.0
        estimate = "" if seconds is None else f", about {seconds:,.0f} s"
        say(f"{population.label}: {population.seed_steps:,} seed-steps{estimate}")
    known = f", about {counted(round(total / 60), 'minute')}" if total else ""
    if bench is not None and any(bench.seconds(population) is None for population in populations):
        known += ", not counting runs that the bench has no row for"
    seed_steps = sum(one.seed_steps for one in populations)
    say_wrapped(f"{counted(len(populations), 'population')}, {seed_steps:,} seed-steps{known}")
    if bench is None and populations:
        say_wrapped(
            f"no time can be estimated: no bench of {device}; icecore bench --out {results}/bench/NAME.json makes one"
        )
