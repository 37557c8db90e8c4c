"""Claims laid out as the paper prints them: a row per task, a column per model, width or activation."""

from collections.abc import Iterable, Sequence

from icecore.errors import require
from icecore.paper import EXPERIMENTS, claims_of
from icecore.paper.scales import PRESETS
from icecore.reporting.claim import Claim, shown
from icecore.reporting.table import Table
from icecore.store.records import Records

EXACT_MATCH = " (exact match)"  # row suffix: share of answers with every token right
BASELINE = "baseline"


def grid_of(claims: Sequence[Claim], title: str = "") -> Table:
    """Lay out the claims of one table or figure: our median and, in brackets, the paper's number.

    A number from one seed says so. The baseline has its own column. Claims that compare several points are left out.
    """
    return laid_out([(claim.place, claim) for claim in claims if claim.place is not None], title)


def preset_grid_of(name: str, scale: str, records: Records, title: str = "") -> Table:
    """Lay out the same with a row per preset that was run, unless an earlier preset has the same settings."""
    known = [each.name for each in EXPERIMENTS.values() if each.has_presets]
    require(name in known, f"{name} has no rows by preset: choose one of {', '.join(known)}")
    seen: set[tuple[str, str]] = set()
    rows: dict[str, list[tuple[tuple[str, str], Claim]]] = {}
    for preset in PRESETS:
        for claim in claims_of([name], scale, preset, records):
            setting = claim.cell, claim.setting
            if claim.place is not None and setting not in seen:
                row, column = claim.place
                seen.add(setting)
                rows.setdefault(row, []).append(((f"{row}, {preset}", column), claim))
    table = laid_out([placed for row in rows.values() for placed in row], title)
    numbers = len(table.headings) - (table.headings[-1] == BASELINE)
    run = [row for row in table.rows if any(text[:1] not in ("", "-") for text in row[1:numbers])]
    return Table(table.title, table.headings, run, table.left)


def laid_out(placed: Iterable[tuple[tuple[str, str], Claim]], title: str) -> Table:
    columns: list[str] = []
    rows: dict[str, dict[str, str]] = {}
    baselines: dict[str, set[float]] = {}
    by_width = False
    for (row, column), claim in placed:
        by_width |= EXPERIMENTS[claim.name].columns == "width"
        if column not in columns:
            columns.append(column)
        few = ", 1 seed" if claim.n == 1 else ""
        paper = "" if claim.paper is None else f" ({claim.paper:,})"
        rows.setdefault(row, {})[column] = (shown(claim.ours, claim.digits) or "-") + paper + few
        if claim.baseline is not None:
            baselines.setdefault(row, set()).add(claim.baseline)
        if claim.exact_match is not None:
            rows.setdefault(f"{row}{EXACT_MATCH}", {})[column] = f"{claim.exact_match:.1f}{few}"
    headings = ("width" if by_width else "", *columns)
    lines = [(row, *(cells.get(column, "") for column in columns)) for row, cells in rows.items()]
    one = {row: shown(min(each), 1) for row, each in baselines.items() if len(each) == 1}
    if one:
        headings, lines = (*headings, BASELINE), [(*line, one.get(line[0], "")) for line in lines]
    return Table(title, headings, lines, left=headings[:1])
