"""The table type and its renderings: Markdown, CSV and HTML here, the terminal in `cli.terminal_table`."""

import csv
import html
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

    @property
    def sides(self) -> list[str]:
        """Return the side at which each column is justified."""
        return ["left" if heading in self.left else "right" for heading in self.headings]

    def markdown(self) -> str:
        """Return the table in Markdown, without its title."""
        lines = (self.headings, ("---",) * len(self.headings), *self.rows)
        return "\n".join(f"| {' | '.join(map(in_markdown, line))} |" for line in lines)

    def csv(self) -> str:
        """Return the table as comma-separated values with its headings first."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerows([*map(printable, line)] for line in (self.headings, *self.rows))
        return stream.getvalue().rstrip("\n")

    def html(self) -> str:
        """Return the table in HTML, with its title as the caption and its notes below."""
        head = "".join(map(in_html, ["th"] * len(self.headings), self.headings, self.sides))
        rows = ["".join(map(in_html, ["td"] * len(row), row, self.sides)) for row in self.rows]
        body = "".join(f"<tr>{row}</tr>\n" for row in rows)
        caption = f"<caption>{escaped(self.title)}</caption>" if self.title else ""
        notes = "".join(f"<p>{escaped(note)}</p>" for note in self.notes)
        return f"<table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>{notes}"

    def _repr_html_(self) -> str:
        """Show the table in a notebook, which justifies cells to the right."""
        return self.html().replace('class="left"', 'style="text-align: left"')

    def records(self) -> list[Mapping[str, str]]:
        """Return each row by heading."""
        return [dict(zip(self.headings, row, strict=True)) for row in self.rows]


def in_markdown(cell: str) -> str:
    return printable_line(cell).replace("|", "\\|")


def in_html(tag: str, cell: str, side: str) -> str:
    return f'<{tag} class="{side}">{escaped(cell)}</{tag}>'


def escaped(text: str) -> str:
    """Return a text as HTML shows it, with control characters visible."""
    return html.escape(printable(text))
