"""Draw a table on a terminal of any width without truncating a cell.

If a table is too wide, its headings break and its columns of prose wrap. If it still does not fit, a table of numbers
continues below, with its first columns repeated. In a table with prose, columns leave the grid, and each row's values
stand below it. Output to a file or a pipe keeps its columns.
"""

import dataclasses
import itertools
import os
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from icecore.errors import printable_line

if TYPE_CHECKING:
    from icecore.reporting.table import Table

PIPED_WIDTH, LEAST_WRAPPED = 160, 24
INDENT = "    "
ALIGNED = "   "  # spaces within a line that is an example


def print_on_terminal(table: "Table") -> None:
    """Print the title, the rows and the notes, with control characters shown as text."""
    width = terminal_width()
    table = printable_table(table)
    print(wrapped(table.title, width))
    if width and not table.wraps and not table.secondary:
        for part in parts_of(table, width):
            print("\n".join(grid_lines(part, range(len(part.headings)), width)))
    else:
        columns = fitting_columns(table, width) if width else range(len(table.headings))
        print("\n".join(grid_lines(table, columns, width or PIPED_WIDTH)))
    for note in table.notes:
        print(wrapped(note, width))


def printable_table(table: "Table") -> "Table":
    rows = [tuple(map(printable_line, row)) for row in table.rows]
    headings, notes = tuple(map(printable_line, table.headings)), tuple(map(printable_line, table.notes))
    return dataclasses.replace(table, title=printable_line(table.title), headings=headings, rows=rows, notes=notes)


def terminal_width() -> int | None:
    """Return the width to fit; None for a pipe, unless COLUMNS is set."""
    from rich.console import Console

    terminal = Console()
    return terminal.width if terminal.is_terminal or "COLUMNS" in os.environ else None


def wrapped(text: str, width: int | None, indent: str = "", hanging: str = "") -> str:
    """Break at spaces only, so that names and flags stay whole; do not break without a width."""
    if width is None:
        return indent + text
    return textwrap.fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=hanging or indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def described(docstring: str) -> str:
    """Fit a docstring to the terminal: paragraphs wrap; lines of an example, which are aligned, stay apart."""
    width = terminal_width()
    if width is None:
        return docstring
    paragraphs = [paragraph.splitlines() for paragraph in docstring.split("\n\n")]
    blocks = [lines if any(ALIGNED in line for line in lines) else [" ".join(lines)] for lines in paragraphs]
    return "\n\n".join(
        "\n".join(wrapped(line, width, hanging=INDENT if len(lines) > 1 else "") for line in lines) for lines in blocks
    )


def parts_of(table: "Table", width: int) -> list["Table"]:
    """Split a table into tables that fit the width; each repeats the columns that name a row."""
    columns = range(len(table.headings))
    if least_width(table, columns) <= width:
        return [table]
    names = [index for index in columns if all(name in table.left for name in table.headings[: index + 1])] or [0]
    parts: list[list[int]] = []
    for index in columns[len(names) :]:
        if not parts or least_width(table, [*names, *parts[-1], index]) > width:
            parts.append([])
        parts[-1].append(index)
    return [with_columns(table, [*names, *part]) for part in parts] or [table]


def with_columns(table: "Table", columns: Sequence[int]) -> "Table":
    headings = tuple(table.headings[index] for index in columns)
    return dataclasses.replace(table, headings=headings, rows=[[row[index] for index in columns] for row in table.rows])


def fitting_columns(table: "Table", width: int) -> Sequence[int]:
    """Return the columns that fit side by side: prose leaves first, then `secondary`, then from the right."""
    columns = list(range(len(table.headings)))
    if least_width(table, columns) <= width:
        return columns
    by_name = [table.headings.index(name) for name in (*table.wraps, *table.secondary) if name in table.headings]
    for index in dict.fromkeys([*by_name, *reversed(columns)]):
        if index:  # the first column names the row
            columns.remove(index)
        if least_width(table, columns) <= width:
            break
    return columns


def grid_lines(table: "Table", columns: Sequence[int], width: int) -> list[str]:
    """Return the lines of the grid; values outside it follow their row, indented."""
    widths = column_widths(table, columns, width)
    headings = [folded(table.headings[index], widths[index]) for index in columns]
    lines = [*row_lines(table, widths, headings, " ┃ "), "━╇━".join("━" * widths[index] for index in columns)]
    outside = [index for index in range(len(table.headings)) if index not in columns]
    for row in table.rows:
        cells = [folded(row[index], widths[index]) if is_prose(table, index) else [row[index]] for index in columns]
        lines += row_lines(table, widths, cells, " │ ")
        values = "; ".join(value_outside(table, index, row[index]) for index in outside if row[index].strip())
        if values:
            lines.append(wrapped(values, width, INDENT))
    return lines


def row_lines(
    table: "Table", widths: Mapping[int, int], cells: Sequence[Sequence[str]], between_cells: str
) -> list[str]:
    """Return a row of the grid, whose cells may have several lines."""
    is_left = [table.headings[index] in table.left for index in widths]
    return [
        between_cells.join(
            padded(part, width, left) for part, width, left in zip(line, widths.values(), is_left, strict=True)
        )
        for line in itertools.zip_longest(*cells, fillvalue="")
    ]


def padded(text: str, width: int, is_left: bool) -> str:
    space = " " * (width - width_of(text))
    return text + space if is_left else space + text


def column_widths(table: "Table", columns: Sequence[int], width: int) -> dict[int, int]:
    """Return the width of each column: headings break and columns of prose wrap only where the table is too wide."""
    is_tight = natural_width(table, columns) > width
    found = {
        index: max(longest(table, index), least_heading(table, index) if is_tight else width_of(table.headings[index]))
        for index in columns
    }
    prose = [index for index in columns if is_prose(table, index)]
    while prose and sum(found.values()) + between(columns) > width:
        widest = max(prose, key=found.__getitem__)
        if found[widest] <= LEAST_WRAPPED:
            break
        found[widest] -= 1
    return found


def value_outside(table: "Table", index: int, value: str) -> str:
    """Return a value with its heading; prose needs none."""
    heading = table.headings[index]
    return value if heading in table.wraps and heading in table.left else f"{heading} {value}".strip()


def longest(table: "Table", index: int) -> int:
    return max((width_of(row[index]) for row in table.rows), default=0)


def width_of(text: str) -> int:
    """Return the number of columns that a terminal shows; some letters take two."""
    from rich.cells import cell_len

    return len(text) if text.isascii() else cell_len(text)


def natural_width(table: "Table", columns: Sequence[int]) -> int:
    """Return the width with unbroken headings, and with columns of prose wrapped."""
    return sum(column_width(table, index, width_of(table.headings[index])) for index in columns) + between(columns)


def least_width(table: "Table", columns: Sequence[int]) -> int:
    """Return the smallest width that truncates nothing: headings break, and columns of prose wrap."""
    return sum(column_width(table, index, least_heading(table, index)) for index in columns) + between(columns)


def least_heading(table: "Table", index: int) -> int:
    """Return the width of a heading's longest word."""
    return max(map(width_of, table.headings[index].split()), default=0)


def column_width(table: "Table", index: int, heading: int) -> int:
    width = max(longest(table, index), heading)
    return min(width, LEAST_WRAPPED) if is_prose(table, index) else width


def is_prose(table: "Table", index: int) -> bool:
    return table.headings[index] in table.wraps


def between(columns: Sequence[int]) -> int:
    return 3 * max(0, len(columns) - 1)


def folded(text: str, width: int) -> list[str]:
    """Break a text at spaces, and a word only where it is wider than its column."""
    return textwrap.wrap(text, max(1, width), break_on_hyphens=False)
