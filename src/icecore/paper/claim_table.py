"""Claims, one per row: the paper's number, ours, its spread, the tolerance and the verdict."""

from collections.abc import Sequence
from dataclasses import replace

from icecore.paper import EXPERIMENTS, Evidence, table4, table7
from icecore.paper.shares import choices_of
from icecore.reporting.claim import Claim, shown
from icecore.reporting.table import Table

HEADINGS = ("name", "cell", "paper", "ours", "n", "spread", "interval", "baseline", "null", "tolerance", "verdict")
SHARES = {"table4": table4.SHARES, "table7": table7.SHARES}


SECONDARY = (
    "tolerance",
    "spread",
    "interval",
    "baseline",
    "null",
    "n",
)  # the cell, both numbers and the verdict stay on one line


def claim_table(claims: Sequence[Claim], title: str) -> Table:
    """List claims, with a column for notes if there are any."""
    headings, rows = HEADINGS, [row_of(claim) for claim in claims]
    if any(claim.remarks for claim in claims):
        headings, rows = (*headings, "note"), [(*row, claim.remarks) for row, claim in zip(rows, claims, strict=True)]
    left = ("name", "cell", "verdict", "note")
    return Table(title, headings, rows, left=left, wraps=("note", "tolerance"), secondary=SECONDARY)


def claim_table_of(name: str, claims: Sequence[Claim]) -> Table:
    """List the claims of one experiment, without the column of names."""
    table = claim_table(claims, f"{name}: {EXPERIMENTS[name].title}")
    return replace(table, headings=table.headings[1:], rows=[row[1:] for row in table.rows])


def row_of(claim: Claim) -> tuple[str, ...]:
    def words(value: float | None) -> str:
        return shown(value, claim.digits)

    def span(ends: tuple[float, float] | None) -> str:
        return "" if ends is None else f"{words(ends[0])} to {words(ends[1])}"

    return (
        claim.name,
        claim.cell,
        words(claim.paper),
        words(claim.ours),
        str(claim.n),
        span(claim.spread),
        span(claim.interval),
        words(claim.baseline),
        "" if claim.null is None else words(claim.null.value),
        claim.tolerance,
        claim.shown_verdict,
    )


def notes_on_pooling(names: Sequence[str], evidence: Evidence) -> list[str]:
    """Report how close each reading of Table 4 is to the paper, which does not say what activations are pooled."""
    printed = [(EXPERIMENTS[name], SHARES[name]) for name in names if name in SHARES]
    choices = choices_of(printed, evidence) if evidence.scale == "paper" else []
    if not choices:
        return []
    return [
        "The paper does not say which activations are pooled. Mean difference from its shares of variance:",
        *(
            f"  positions {choice.positions}, last layer {choice.last_layer} the final norm: "
            f"{choice.difference:.1f} points, {choice.within} of {choice.numbers} numbers within the tolerance"
            for choice in choices
        ),
    ]
