"""What the commands share when they print: JSON last on standard output, progress on standard error."""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import typer

Thing = TypeVar("Thing")

JSON_OPTION = typer.Option(False, "--json", help="Print one JSON object as the last line.")


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


def print_table(title: str, columns: dict[str, str], rows: Iterable[Iterable[str]]) -> None:
    """A table on standard output; `columns` maps each heading to its justification."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_edge=False, pad_edge=False)
    for heading, justify in columns.items():
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*row)
    print(title)
    # Piped output is not cut at a terminal's width.
    Console(width=None if Console().is_terminal else 160, markup=False, emoji=False).print(table)
