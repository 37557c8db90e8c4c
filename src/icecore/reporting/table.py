"""The table type and its renderings: Markdown and CSV here, the terminal in `cli.terminal_table`."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icecore.errors import printable, printable_line


@dataclass(frozen=True)
class Table:
    """Rows of text below headings. Columns are right-justified unless named in `left`."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    left: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # below the table
    wraps: tuple[str, ...] = ()  # headings of prose; only these wrap on a narrow terminal
    secondary: tuple[str, ...] = ()  # headings that leave the grid first if the terminal is too narrow

    def markdown(self) -> str:
        """Return the table in Markdown, without its title."""
        lines = (self.headings, ("---",) * len(self.headings), *self.rows)
        return "\n".join(f"| {' | '.join(map(in_markdown, line))} |" for line in lines)

    def _repr_markdown_(self) -> str:
        """Show the table in a notebook."""
        return f"**{printable(self.title)}**\n\n{self.markdown()}" if self.title else self.markdown()

    def csv(self) -> str:
        """Return the table as comma-separated values with its headings first."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerows([*map(printable, line)] for line in (self.headings, *self.rows))
        return stream.getvalue().rstrip("\n")

    def records(self) -> list[Mapping[str, str]]:
        """Return each row by heading."""
        return [dict(zip(self.headings, row, strict=True)) for row in self.rows]


def in_markdown(cell: str) -> str:
    return printable_line(cell).replace("|", "\\|")
