"""`icecore analyze`: look inside a trained run."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from icecore.cli.options import OUTPUT_PANEL
from icecore.cli.output import JSON_OPTION, print_json, print_table, say, say_aside
from icecore.cli.progress import stage_progress
from icecore.cli.run_folders import RUN, TRUST, require_elsewhere
from icecore.errors import InputError, require, unknown_name

if TYPE_CHECKING:
    from icecore.reporting.inside import Analysis, Result


def analyze_command(
    run: Path = RUN,
    what: str | None = typer.Option(
        None,
        help="variance, causal, attention, modular, readout, capacity, or FILE.py:FUNCTION, with commas. Default: all "
        "that fit the run.",
    ),
    seed: int | None = typer.Option(None, help="Which seed. Default: the run's first."),
    positions: str = typer.Option(
        "read", help="Which positions: read (up to the last scored one), all (padding too), scored, last."
    ),
    prompt: str | None = typer.Option(
        None, help="For attention: a prompt in the task's notation, such as 'a 1 b 2 a'."
    ),
    items: int = typer.Option(1000, min=1, help="For causal, attention and your functions: number of test items."),
    activation: str | None = typer.Option(
        None,
        help="For causal: edit only this activation, such as embedding or block0.stream. Default: the whole residual "
        "stream.",
    ),
    components: str | None = typer.Option(
        None, help="For modular: draw two principal components, such as 1,3. Default: the most circular pair."
    ),
    figures: Path | None = typer.Option(
        None, help="Also draw figures into this folder, as PNG and PDF.", rich_help_panel=OUTPUT_PANEL
    ),
    device: str = typer.Option("auto", help="auto, cpu or cuda."),
    out: Path | None = typer.Option(
        None, help="Also write the JSON to this file, with commit, command and device.", rich_help_panel=OUTPUT_PANEL
    ),
    trust: bool = TRUST,
    json: bool = JSON_OPTION,
) -> None:
    """Look inside a run, with the untrained network as control.

    [bold]Examples[/bold]

    icecore analyze runs/needle/0123456789ab --figures figures
    icecore analyze RUN --what attention --prompt 'a 1 b 2 a'
    icecore analyze RUN --what variance,my_measurement.py:my_function

    [bold]variance[/bold]: share of the residual stream's variance in its top 10 directions and neurons (Table 4).
    [bold]causal[/bold]: accuracy when the residual stream keeps, or loses, its top k directions.
    [bold]attention[/bold]: heads that look up earlier tokens (Figure 2).
    [bold]modular[/bold]: circles in the embeddings of modular addition (Figure 3).
    [bold]readout[/bold]: the best unembedding for the untrained body, solved by regression.
    [bold]capacity[/bold]: memorized bits (Table 3).

    A function of yours takes (model, parameters, batch) and returns a number, or a dict of numbers. It is called with
    the trained and with the initial parameters.
    """
    from icecore.analysis.moments import POSITIONS
    from icecore.process import configure_process
    from icecore.reporting.inside import (
        ANALYSES,
        AnalysisContext,
        AnalysisOptions,
        AnalyzedRun,
        analyze_run,
        chosen,
        draw,
    )
    from icecore.store import provenance, remember_source, require_writable, write_json
    from icecore.training import RunFolder, device_name, pick_device

    configure_process()
    remember_source()
    require_elsewhere(run, out, figures)
    if out is not None:
        require_writable(out)
    if positions not in POSITIONS:
        raise unknown_name("choice of positions", positions, list(POSITIONS))
    pair = None if components is None else parse_components(components)
    config, population = RunFolder(run, trust).load(pick_device(device))
    analyzed = AnalyzedRun.of(config, population, config.seeds[0] if seed is None else seed)
    analyses = chosen(analyzed, [] if what is None else [word.strip() for word in what.split(",")])
    left_out = [] if what else [name for name in ANALYSES if name not in analyses]
    if left_out:
        say_aside(f"left out, as they do not fit this run: {', '.join(left_out)}; --what NAME says why")
    with stage_progress() as on_progress:
        options = AnalysisOptions(positions, items, activation, prompt, pair)
        context = AnalysisContext(analyzed, options, on_progress)
        found = dict(analyze_run(context, analyses.values()))
    files: list[Path] = []
    if figures is not None:
        try:
            files = draw(context, analyses.values(), found, figures)
        except OSError as error:
            raise InputError(
                f"cannot write into {figures}: {error.strerror or error}; choose another folder"
            ) from error
    if out is not None:
        write_json(out, {**provenance(device_name(population.device)), "run": str(run), "analyses": found})
    if json:
        print_json({"run": str(run), "analyses": found, "figures": [str(file) for file in files]})
        return
    show(analyses, found)
    for file in files:
        say(file)


def show(analyses: "Mapping[str, Analysis]", found: "Mapping[str, Result]") -> None:
    """Print the tables of each analysis."""
    for name, result in found.items():
        for table in analyses[name].tables(result):
            print_table(table)


def parse_components(text: str) -> tuple[int, int]:
    words = text.split(",")
    require(
        len(words) == 2 and all(word.strip() in ("1", "2", "3", "4") for word in words),
        f"--components must be two of 1 to 4, as in 1,3, got '{text}'",
    )
    first, second = (int(word) - 1 for word in words)
    require(first != second, f"--components must be two different ones, got '{text}'")
    return first, second
