"""`icecore demo`: the paper's claim on a laptop, in minutes."""

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from icecore.cli.output import CSV, JSON_OPTION, MARKDOWN, format_of, print_json, print_table, say, say_wrapped
from icecore.cli.progress import sweep_progress
from icecore.reporting.table import Table

if TYPE_CHECKING:
    from icecore.sweeps.demo import Row


def command(
    out: Path = typer.Option(
        Path("runs/demo"), help="Where runs and the figure are saved; finished runs are not repeated."
    ),
    markdown: bool = MARKDOWN,
    csv: bool = CSV,
    json: bool = JSON_OPTION,
) -> None:
    """Compare a frozen transformer with a trained one on four tasks.

    [bold]Examples[/bold]

    icecore demo
    icecore demo --out runs/demo --markdown

    For each task: the best of a few rules that need no learning (baseline), then the accuracy when only the
    unembedding trains (one seed, 300 steps), when the embeddings train around the frozen body, and when everything
    trains (three seeds each). It takes a few minutes on two cores.
    """
    from icecore.reporting.figures.demo import draw_demo
    from icecore.sweeps.demo import run_demo, total_steps

    started = time.monotonic()
    with sweep_progress(total_steps()) as progress:
        rows = list(run_demo(out, progress.begin))
    picture = out / "demo.png"
    draw_demo(rows, picture)
    seconds = round(time.monotonic() - started, 1)
    if json:
        print_json({"rows": [dataclasses.asdict(row) for row in rows], "seconds": seconds, "picture": str(picture)})
        return
    headings = ("task", "baseline", "U only", "Random, 3 seeds", "Normal, 3 seeds")
    cells = [
        (row.task, *(", ".join(f"{100 * value:.1f}" for value in values) for values in columns_of(row))) for row in rows
    ]
    title = "Test accuracy, % (width 128, 2 layers; the same data for all)"
    print_table(Table(title, headings, cells, left=("task",)), format_of(markdown, csv))
    if markdown or csv:
        return
    say_wrapped("baseline: the best of a few rules that need no learning; U only: only the unembedding trains;")
    say_wrapped("Random: the embeddings train around a frozen random body; Normal: everything trains.")
    say(f"{seconds:.0f} s; figure saved in {picture}")


def columns_of(row: "Row") -> tuple[list[float], ...]:
    return [row.baseline], [row.unembed_only], row.random, row.normal
