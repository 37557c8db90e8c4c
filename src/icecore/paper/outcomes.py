"""Predictions of the preset `reconstructed` beside what its runs gave."""

from icecore.paper import EXPERIMENTS, evidence_of
from icecore.paper.predictions import BY_CELL, PREDICTED_PRESET
from icecore.reporting.claim import Claim, shown
from icecore.reporting.table import Table
from icecore.store.records import Records

HEADINGS = ("cell", "paper", "released", PREDICTED_PRESET, "interval", "seeds", "predicted", "outcome")
LEFT = ("cell", "predicted", "outcome")
NAMES = tuple(dict.fromkeys(name for name, _ in BY_CELL))


def outcomes(records: Records, title: str = "") -> Table:
    """Return a row per predicted number that was run; those that moved away from the paper come first."""
    pairs: list[tuple[Claim, Claim]] = []
    for name in NAMES:
        after, before = (
            {claim.cell: claim for claim in EXPERIMENTS[name].claims_of(evidence_of(records, preset=preset))}
            for preset in (PREDICTED_PRESET, "released")
        )
        pairs += [
            (before[cell], claim) for cell, claim in after.items() if claim.ours is not None and (name, cell) in BY_CELL
        ]
    pairs.sort(key=lambda pair: moved(*pair), reverse=True)
    held = sum(BY_CELL[after.name, after.cell].expected == outcome_of(after) for _, after in pairs)
    notes = (f"{held} of {len(pairs)} predictions held; {len(BY_CELL) - len(pairs)} were not run",)
    return Table(
        title, HEADINGS, [row_of(*pair) for pair in pairs], left=LEFT, notes=notes, secondary=("interval", "seeds")
    )


def moved(before: Claim, after: Claim) -> float:
    """Return by how much the distance to the paper's number grew."""
    if before.ours is None or after.ours is None or after.paper is None:
        return 0.0
    return abs(after.ours - after.paper) - abs(before.ours - after.paper)


def outcome_of(claim: Claim) -> str:
    """Return "within" or "outside": whether our median is within the tolerance."""
    assert claim.allowed is not None
    assert claim.ours is not None
    least, most = claim.allowed
    return "within" if least <= claim.ours <= most else "outside"


def row_of(before: Claim, after: Claim) -> tuple[str, ...]:
    low, high = after.interval or (None, None)
    return (
        after.cell,
        shown(after.paper, after.digits),
        shown(before.ours, before.digits),
        shown(after.ours, after.digits),
        "" if low is None else f"{shown(low, after.digits)} to {shown(high, after.digits)}",
        str(after.n),
        BY_CELL[after.name, after.cell].expected,
        outcome_of(after),
    )
