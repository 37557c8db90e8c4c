"""`icecore curves`: loss and accuracy of runs against the step."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from icecore.cli.options import OUTPUT_PANEL
from icecore.cli.output import CSV, JSON_OPTION, counted, print_json, print_table, say, say_aside
from icecore.cli.run_folders import require_elsewhere
from icecore.cli.sweeps import warn
from icecore.cli.terminal_plot import Plot, plot_lines
from icecore.cli.terminal_table import PIPED_WIDTH, terminal_width
from icecore.errors import InputError, printable_line, require, unknown_name
from icecore.reporting.table import Table

if TYPE_CHECKING:
    from icecore.reporting.curves import RunCurves

SHOWN = ("loss", "accuracy")  # where they were logged
HEIGHT, WIDEST = 10, 100  # size of a plot in characters
MOST_PANELS = 24  # of a figure


def command(
    runs: list[Path] = typer.Argument(..., metavar="RUN", help="Runs, or folders of runs. They may still be training."),
    measure: list[str] = typer.Option(
        [], help="What to show: loss, accuracy, test_loss, or a probe of yours. Repeatable. Default: loss and accuracy."
    ),
    log: bool | None = typer.Option(
        None,
        "--logarithmic/--linear",
        help="The vertical axis. Default: by the range of the values.",
        show_default=False,
    ),
    figure: Path | None = typer.Option(
        None,
        help="Draw FILE.png, FILE.pdf or FILE.svg instead: a hue per run, the median, and the seeds as a band.",
        rich_help_panel=OUTPUT_PANEL,
    ),
    csv: bool = CSV,
    json: bool = JSON_OPTION,
) -> None:
    """Plot the loss and the accuracy of runs against the step.

    [bold]Examples[/bold]

    icecore curves runs/needle/0123456789ab
    icecore curves runs/needle --figure needle.png
    icecore curves RUN --measure test_loss --csv > curve.csv

    The line is the median over seeds, the band their range. A run that is still training can be watched.
    """
    from icecore.drawing import require_drawable, write
    from icecore.reporting.curves import MOST_DRAWN, draw_runs, measures_of

    folders = run_folders(runs)
    if figure is not None:
        require_drawable([figure])
        for folder in folders:
            require_elsewhere(folder, figure)
    found = [curves for folder in folders if (curves := curves_of(folder)).series]
    require(bool(found), f"{counted(len(folders), 'run')} of {runs[0]} logged nothing so far; wait, and try again")
    known = measures_of(found)
    for name in measure:
        if name not in known:
            raise unknown_name("measured number", name, known)
    chosen = measure or [name for name in SHOWN if name in known] or known
    require(
        figure is None or len(chosen) <= MOST_PANELS,
        f"a figure has at most {MOST_PANELS} panels, and {len(chosen):,} numbers were logged: name some with --measure",
    )
    if figure is not None:
        require(len(found) <= MOST_DRAWN, f"a figure tells {MOST_DRAWN} runs apart, these are {len(found)}: name fewer")
        write(draw_runs(found, chosen, log), [figure])
    if json:
        rows = [
            {"run": one.name, "label": one.label, "seeds": one.seeds, **{name: one.series.get(name) for name in chosen}}
            for one in found
        ]
        print_json({"curves": rows, "files": [] if figure is None else [str(figure)]})
    elif csv:
        print(table_of(found, chosen).csv())
    elif figure is not None:
        say(f"{counted(len(found), 'run')}, {' and '.join(chosen)}, in {figure}")
    else:
        show(found, chosen, log)


def run_folders(paths: Sequence[Path]) -> list[Path]:
    """Return the named runs, and those below named folders."""
    from icecore.page.sources import CONFIG, runs_below

    found: list[Path] = []
    for path in paths:
        below = [path] if (path / CONFIG).is_file() else runs_below(path)
        require(bool(below), f"there is no run at {path}: name a run's folder, or a folder of runs")
        found += below
    return list(dict.fromkeys(found))


def curves_of(folder: Path) -> "RunCurves":
    """Return a run's curves; warn and return none if it is damaged."""
    from icecore.page.runs import Setting
    from icecore.reporting.curves import RunCurves, series_of
    from icecore.training.run_folder import RunFolder, read_config

    name = f"{folder.parent.name}/{folder.name}"
    try:
        config = read_config(folder)
        seeds, label = config["seeds"], Setting(config).label
        return RunCurves(name, tuple(seeds), series_of(RunFolder(folder).metrics(), len(seeds)), label)
    except (InputError, KeyError, TypeError, AttributeError) as error:
        warn(f"{folder} is damaged and skipped: {error}")
        return RunCurves(name, (), {})


def table_of(runs: "Sequence[RunCurves]", measures: Sequence[str]) -> Table:
    """Return a row per run, measured number, step and seed."""
    rows = [
        (run.name, name, str(step), str(seed), repr(values[index]))
        for run in runs
        for name in measures
        if (series := run.series.get(name))
        for seed, values in zip(run.seeds, series["values"], strict=True)
        for index, step in enumerate(series["steps"])
    ]
    return Table("", ("run", "measure", "step", "seed", "value"), rows)


def show(runs: "Sequence[RunCurves]", measures: Sequence[str], is_log: bool | None) -> None:
    """Print a plot per run and measured number, and the last values as a table."""
    from icecore.reporting.curves import band_of, is_logarithmic

    width = min(terminal_width() or PIPED_WIDTH, WIDEST)
    rows = []
    for run in runs:
        say(f"{printable_line(run.heading)}, {counted(len(run.seeds), 'seed')}")
        known = [run.series[name]["steps"] for name in measures if name in run.series]
        span = (min(steps[0] for steps in known), max(steps[-1] for steps in known)) if known else None
        for name in measures:
            if name not in run.series:
                continue
            least, middle, most = band_of(run.series[name])
            chosen = is_logarithmic(name, least + most) if is_log is None else is_log and min(least) > 0
            steps = run.series[name]["steps"]
            if len(steps) > 1:
                plot = Plot(name.replace("_", " "), steps, least, middle, most, chosen, span)
                say("\n".join(plot_lines(plot, width, HEIGHT)) + "\n")
            rows.append(
                (
                    run.name,
                    name.replace("_", " "),
                    f"{steps[-1]:,}",
                    *(f"{each[-1]:.4g}" for each in (middle, least, most)),
                )
            )
    print_table(Table("Last values", ("run", "", "step", "median", "least", "most"), rows, left=("run", "")))
    samples = [one["items"] for run in runs for name, one in run.series.items() if name in measures and "items" in one]
    if samples:
        say_aside(f"on the way, some values are of {samples[0]:,} test items; the last is of all")
    if any(len(run.seeds) > 1 for run in runs):
        say_aside("dots: the median over seeds; shaded: their range")
