"""Tables 4, 5 and 7: shares of variance beside the paper's, and what the paper leaves open about them."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from icecore.analysis.moments import POSITIONS
from icecore.reporting.claim import Claim, median_of, seeds_by_setting, verdict_of, without_verdict
from icecore.reporting.paper_numbers import SHARES, Share
from icecore.store import Record, Records
from icecore.sweeps.entries import ENTRIES
from icecore.sweeps.variance import INSIDE

DEFAULT_POSITIONS = "read"


def share_claim(
    name: str, share: Share, runs: Sequence[Record], is_comparable: bool, cell: str = "", more: str = ""
) -> Claim:
    """At the default choices: every position that is read, the last layer after the final norm.

    `cell` is what the share's own is called here.
    """
    values = shares_of(runs, share)
    ours = median_of(values)
    tolerance, reason = f"{share.tolerance.points:g}", share.tolerance.reason + more
    verdict = verdict_of(ours, ours is not None and abs(ours - share.paper) <= share.tolerance.points)
    if not is_comparable:
        tolerance, reason, verdict = "", "shares of variance depend on the width", without_verdict(ours)
    share = replace(share, cell=cell or share.cell)
    label, place = f"{share.cell}, {share.column}", (share.cell, share.column)
    return Claim(name, label, share.paper, ours, tuple(values), None, tolerance, reason, verdict, place=place)


def shares_of(
    runs: Sequence[Record], share: Share, positions: str = DEFAULT_POSITIONS, place: str | None = None
) -> list[float]:
    """Each seed's share in %, of those that have it; without a `place`, at the default one."""
    which = 0 if share.kind == "directions" else 1
    found = [run.get("variance", {}).get(positions, {}).get(place or share.place) for run in runs]
    return [100 * shares[which] for shares in found if shares is not None]


@dataclass(frozen=True)
class Choice:
    """What the paper leaves open, and how far medians are from its numbers with it, in points on average."""

    positions: str
    last_layer: str  # before or after the final norm
    difference: float
    within: int  # the numbers' tolerances
    numbers: int


def choices_of(names: Sequence[str], scale: str, preset: str, records: Records) -> list[Choice]:
    """Every combination over the rows that were run, the closest to the paper first."""
    inside = seeds_by_setting(records.beside(INSIDE))
    found: list[Choice] = []
    for positions in POSITIONS:
        for last_layer in ("before", "after"):
            differences: list[float] = []
            within = 0
            for name in names:
                cells = {cell.label: cell for cell in ENTRIES[name].at(scale, preset)}
                for share in SHARES[name]:
                    place = share.place if last_layer == "after" else share.stream
                    values = shares_of(inside.get(cells[share.cell].setting, []), share, positions, place)
                    if values:
                        differences.append(abs(statistics.median(values) - share.paper))
                        within += differences[-1] <= share.tolerance.points
            if differences:
                found.append(Choice(positions, last_layer, statistics.fmean(differences), within, len(differences)))
    return sorted(found, key=lambda choice: choice.difference)
