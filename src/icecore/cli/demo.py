"""`icecore demo`: the paper's claim on a laptop, in minutes."""

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from icecore.cli.output import JSON_OPTION, print_json, print_table
from icecore.cli.watching import in_words

if TYPE_CHECKING:
    from icecore.sweeps.demo import Row
    from icecore.training import Progress, Watch


def command(
    out: Path = typer.Option(Path("runs/demo"), help="Where runs and the picture go; what is there is not repeated."),
    markdown: bool = typer.Option(False, "--markdown", help="Print the table in Markdown."),
    json: bool = JSON_OPTION,
) -> None:
    """Train a random transformer's embeddings on four small tasks, and compare.

    For each task: the best rule that needs no learning (floor), the unembedding alone trained on the untouched
    body, embeddings trained around the frozen random body (three seeds), and everything trained. Two cores
    take a few minutes.
    """
    from icecore.reporting.demo import draw_demo
    from icecore.sweeps.demo import run_demo, total_steps

    started = time.monotonic()
    with overall_progress(total_steps()) as watch_of:
        rows = list(run_demo(out, watch_of))
    picture = out / "demo.png"
    draw_demo(rows, picture)
    seconds = round(time.monotonic() - started, 1)
    if json:
        print_json({"rows": [dataclasses.asdict(row) for row in rows], "seconds": seconds, "picture": str(picture)})
        return
    headings = ("task", "floor", "U only", "Random, 3 seeds", "Normal")
    cells = [
        (row.task, *(", ".join(f"{100 * value:.1f}" for value in values) for values in columns_of(row))) for row in rows
    ]
    if markdown:
        for line in (headings, ("---",) * len(headings), *cells):
            print(f"| {' | '.join(line)} |")
        return
    justify = dict.fromkeys(headings, "right") | {"task": "left"}
    print_table("Test accuracy, % (width 128, 2 layers; the same data for all)", justify, cells)
    print("floor: the best rule that needs no learning; U only: the unembedding alone trained, on the untouched body;")
    print("Random: embeddings trained around a frozen random body; Normal: everything trained.")
    print(f"{seconds:.0f} s; the picture is {picture}")


def columns_of(row: "Row") -> tuple[list[float], ...]:
    return [row.floor], [row.unembed_only], row.random, row.normal


@contextlib.contextmanager
def overall_progress(total: int) -> "Iterator[Callable[[str, int], Watch]]":
    """Progress over many runs, in seed-steps: one live bar on a terminal, a plain line a run elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (
        BarColumn(bar_width=14),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.description}: {task.fields[words]}"),
    )
    done = 0
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        row = bar.add_task("", total=total, words="")

        def watch_of(label: str, seed_steps: int) -> "Watch":
            nonlocal done
            before = done
            done += seed_steps
            if not console.is_terminal:
                print(f"[{100 * before / total:3.0f} %] {label}", file=sys.stderr, flush=True)
            bar.update(row, description=label, completed=before, words="")

            def watch(progress: "Progress") -> None:
                share = progress.step / progress.steps
                bar.update(row, completed=before + share * seed_steps, words=in_words(progress))

            return watch

        yield watch_of
