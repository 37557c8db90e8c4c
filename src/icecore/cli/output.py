"""Print results on standard output, JSON last, and progress on standard error."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import typer

from icecore.cli.options import OUTPUT_PANEL
from icecore.cli.terminal_table import print_on_terminal, terminal_width, wrapped
from icecore.errors import printable, require

if TYPE_CHECKING:
    from icecore.reporting.table import Table

Thing = TypeVar("Thing")

JSON_OPTION = typer.Option(
    False, "--json", help="Print one JSON object as the last line.", rich_help_panel=OUTPUT_PANEL
)
MARKDOWN = typer.Option(False, "--markdown", help="Print the table in Markdown.", rich_help_panel=OUTPUT_PANEL)
CSV = typer.Option(False, "--csv", help="Print the table as comma-separated values.", rich_help_panel=OUTPUT_PANEL)


def say(*words: object, end: str = "\n", flush: bool = False) -> None:
    """Print on standard output, with control characters shown as text."""
    print(printable(" ".join(map(str, words))), end=end, flush=flush)


def say_wrapped(text: str, hanging: str = "") -> None:
    """Print on standard output, broken at spaces to fit a terminal."""
    say(wrapped(text, terminal_width(), hanging=hanging))


def say_aside(*words: object, end: str = "\n", flush: bool = False) -> None:
    """Print on standard error, with control characters shown as text."""
    print(printable(" ".join(map(str, words))), end=end, flush=flush, file=sys.stderr)


def print_json(value: object) -> None:
    print(json.dumps(value).replace("\x7f", "\\u007f"))  # the one control character that JSON leaves as it is


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def with_progress(things: Iterable[Thing], total: int, label: str) -> Iterator[Thing]:
    """Yield the things, with a bar and an ETA on standard error if it is a terminal."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(
        things,
        description=escape(printable(label)),
        total=total,
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


@contextlib.contextmanager
def counting(total: int, label: str) -> Iterator[Callable[[int], None]]:
    """Yield a callback that takes the number done and shows a bar with an ETA on a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        row = bar.add_task(label, total=total)
        yield lambda done: bar.update(row, completed=done)


class Format(StrEnum):
    """Output format of a table."""

    terminal = "terminal"
    markdown = "markdown"
    csv = "csv"


def format_of(markdown: bool, csv: bool) -> Format:
    require(not (markdown and csv), "--markdown and --csv are two formats: choose one")
    return Format.markdown if markdown else Format.csv if csv else Format.terminal


def print_table(table: "Table", format: Format = Format.terminal) -> None:
    """Print a table on standard output, with its title and notes on a terminal."""
    if format is Format.markdown:
        print(table.markdown())
    elif format is Format.csv:
        print(table.csv())
    else:
        print_on_terminal(table)
