"""Claims laid out as the paper prints them: a row a task, a column a model, a width, or a place inside."""

from collections.abc import Iterable, Sequence

from icecore.errors import require
from icecore.reporting.claim import Claim
from icecore.reporting.claims import claims_of, shown
from icecore.reporting.paper_numbers import NUMBERS
from icecore.store import Records
from icecore.sweeps.entries import ENTRIES
from icecore.sweeps.paper import PRESETS

WHOLE = " (whole answers)"  # ends the name of a row: not tokens are counted but answers that are right throughout

Grid = tuple[tuple[str, ...], list[tuple[str, ...]]]  # headings and rows


def grid_of(claims: Sequence[Claim]) -> Grid:
    """Our median and, in brackets, the paper's number, for claims of one table or figure.

    What is no median, but one seed's, says so. What needs no learning, the floor, has a column of its own. A claim that
    compares several points has no place in it.
    """
    return laid_out([(claim.place, claim) for claim in claims if claim.place is not None])


def preset_grid_of(name: str, scale: str, records: Records) -> Grid:
    """The same with a row for every preset that was run, if its settings are others than an earlier one's."""
    require(name in NUMBERS or name == "fig7", f"{name} has no rows by preset: choose of {', '.join(NUMBERS)} and fig7")
    seen: set[tuple[str, str]] = set()
    rows: dict[str, list[tuple[tuple[str, str], Claim]]] = {}
    for preset in PRESETS:
        for claim in claims_of([name], scale, preset, records):
            setting = claim.cell, claim.setting
            if claim.place is not None and setting not in seen:
                row, column = claim.place
                seen.add(setting)
                rows.setdefault(row, []).append(((f"{row}, {preset}", column), claim))
    headings, lines = laid_out([placed for row in rows.values() for placed in row])
    floors = len(headings) - (headings[-1] == "floor")
    return headings, [line for line in lines if any(text[:1] not in ("", "-") for text in line[1:floors])]


def laid_out(placed: Iterable[tuple[tuple[str, str], Claim]]) -> Grid:
    columns: list[str] = []
    rows: dict[str, dict[str, str]] = {}
    floors: dict[str, set[float]] = {}
    by_width = False
    for (row, column), claim in placed:
        by_width |= ENTRIES[claim.name].columns == "width"
        if column not in columns:
            columns.append(column)
        few = ", 1 seed" if claim.n == 1 else ""
        paper = "" if claim.paper is None else f" ({claim.paper:,})"
        rows.setdefault(row, {})[column] = (shown(claim.ours, claim.digits) or "-") + paper + few
        if claim.floor is not None:
            floors.setdefault(row, set()).add(claim.floor)
        if claim.whole_answers is not None:
            rows.setdefault(f"{row}{WHOLE}", {})[column] = f"{claim.whole_answers:.1f}{few}"
    headings = ("width" if by_width else "", *columns)
    lines = [(row, *(cells.get(column, "") for column in columns)) for row, cells in rows.items()]
    one = {row: shown(min(each), 1) for row, each in floors.items() if len(each) == 1}
    return ((*headings, "floor"), [(*line, one.get(line[0], "")) for line in lines]) if one else (headings, lines)
