"""Print results on standard output, JSON last, and progress on standard error."""

import contextlib
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import typer

from icecore.cli.options import OUTPUT_PANEL
from icecore.errors import require

if TYPE_CHECKING:
    from icecore.reporting.table import Table

Thing = TypeVar("Thing")

JSON_OPTION = typer.Option(
    False, "--json", help="Print one JSON object as the last line.", rich_help_panel=OUTPUT_PANEL
)
MARKDOWN = typer.Option(False, "--markdown", help="Print the table in Markdown.", rich_help_panel=OUTPUT_PANEL)
CSV = typer.Option(False, "--csv", help="Print the table as comma-separated values.", rich_help_panel=OUTPUT_PANEL)


def print_json(value: object) -> None:
    print(json.dumps(value))


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def with_progress(things: Iterable[Thing], total: int, label: str) -> Iterator[Thing]:
    """Yield the things, with a bar and an ETA on standard error if it is a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(
        things, description=label, total=total, console=console, disable=not console.is_terminal, transient=True
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


PIPED_WIDTH, LEAST_WRAPPED = 160, 24


def print_on_terminal(table: "Table") -> None:
    """Print a table without truncating a cell.

    On a narrow terminal, columns of prose wrap and headings break; a table may still be wider than the terminal.
    """
    from rich.console import Console
    from rich.table import Table as RichTable

    terminal = Console()
    available = terminal.width if terminal.is_terminal else PIPED_WIDTH
    longest = [max((len(row[index]) for row in table.rows), default=0) for index in range(len(table.headings))]
    headings = list(table.headings)
    if width_of(table, headings, longest) > available:
        headings = [folded_heading(heading, most) for heading, most in zip(headings, longest, strict=True)]
    drawn = RichTable(show_edge=False, pad_edge=False)
    for heading, (name, justify) in zip(headings, table.justified, strict=True):
        may_wrap = name in table.wraps
        drawn.add_column(heading, justify=justify, no_wrap=not may_wrap, overflow="fold")  # type: ignore[arg-type]
    for row in table.rows:
        drawn.add_row(*row)
    print(table.title)
    width = max(available, width_of(table, headings, longest))
    Console(width=width, markup=False, emoji=False, highlight=False).print(drawn)
    for note in table.notes:
        print(note)


def width_of(table: "Table", headings: list[str], longest: list[int]) -> int:
    """Return the smallest width that truncates nothing, with columns of prose wrapped."""
    width = 3 * max(0, len(headings) - 1)
    for name, heading, most in zip(table.headings, headings, longest, strict=True):
        widest = max([most, *map(len, heading.splitlines())])
        width += min(widest, LEAST_WRAPPED) if name in table.wraps else widest
    return width


def folded_heading(heading: str, longest: int) -> str:
    """Break a heading that is wider than its column."""
    width = max([longest, *map(len, heading.split())], default=1)
    return "\n".join(textwrap.wrap(heading, max(1, width), break_long_words=False)) or heading
