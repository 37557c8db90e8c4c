"""Printing: results on standard output with JSON last, progress on standard error."""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import typer

from icecore.errors import require

if TYPE_CHECKING:
    from icecore.reporting.table import Table

Thing = TypeVar("Thing")

JSON_OPTION = typer.Option(False, "--json", help="Print one JSON object as the last line.")
MARKDOWN = typer.Option(False, "--markdown", help="Print the table in Markdown.")
CSV = typer.Option(False, "--csv", help="Print the table as comma-separated values.")


def print_json(value: object) -> None:
    print(json.dumps(value))


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def with_progress(things: Iterable[Thing], total: int, label: str) -> Iterator[Thing]:
    """The same things, with a bar and an ETA on standard error where that is a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(
        things, description=label, total=total, console=console, disable=not console.is_terminal, transient=True
    )


@contextlib.contextmanager
def counting(total: int, label: str) -> Iterator[Callable[[int], None]]:
    """A function to be told how many are done, shown as a bar with an ETA where there is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        row = bar.add_task(label, total=total)
        yield lambda done: bar.update(row, completed=done)


class Format(StrEnum):
    """How a table is printed."""

    terminal = "terminal"
    markdown = "markdown"
    csv = "csv"


def format_of(markdown: bool, csv: bool) -> Format:
    require(not (markdown and csv), "--markdown and --csv are two formats: choose one of them")
    return Format.markdown if markdown else Format.csv if csv else Format.terminal


def print_table(table: "Table", format: Format = Format.terminal) -> None:
    """Print a table on standard output, with its title and notes on a terminal."""
    if format is Format.markdown:
        print(table.markdown())
    elif format is Format.csv:
        print(table.csv())
    else:
        print_on_terminal(table)


def print_on_terminal(table: "Table") -> None:
    from rich.console import Console
    from rich.table import Table as RichTable

    drawn = RichTable(show_edge=False, pad_edge=False)
    for heading, justify in table.justified:
        drawn.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for row in table.rows:
        drawn.add_row(*row)
    print(table.title)
    # Piped output is not cut at a terminal's width.
    Console(width=None if Console().is_terminal else 160, markup=False, emoji=False).print(drawn)
    for note in table.notes:
        print(note)
