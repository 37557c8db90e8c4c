"""Summary of what is reproduced: a row per table or figure."""

from collections import Counter
from collections.abc import Sequence

from icecore.paper import EXPERIMENTS, evidence_of
from icecore.paper.evidence import spent
from icecore.reporting.claim import Claim, seeds_of
from icecore.reporting.table import Table
from icecore.store.records import Records

VERDICTS = {  # by column heading
    "reproduced": "reproduced",
    "weak": "reproduced (weak)",
    "differ": "differs",
    "undecided": "undecided",
    "no number": "nothing to compare with",
    "follow": "follows",
    "not run": "not run",
}
HEADINGS = ("name", "what", *VERDICTS, "seeds", "minutes")


def summary_of(names: Sequence[str], scale: str, preset: str, records: Records, title: str = "") -> Table:
    """Count verdicts. Minutes are of all runs behind a row, including runs that rows share."""
    evidence = evidence_of(records, scale, preset)
    rows = [
        (
            name,
            EXPERIMENTS[name].title,
            *counted(EXPERIMENTS[name].claims_of(evidence)),
            ", ".join(f"{each.seconds / 60:,.1f}" for each in spent(EXPERIMENTS[name].runs_of(evidence))),
        )
        for name in names
    ]
    return Table(title, HEADINGS, rows, left=HEADINGS[:2], wraps=("what",))


SIDE_BY_SIDE = ("released", "unfiltered", "reconstructed")
SHORT = ("reproduced", "reproduced (weak)", "differs", "undecided", "not run")  # the verdicts that are compared
LEGEND = "reproduced, weak, differ, undecided, not run"


def verdicts_by_preset(names: Sequence[str], scale: str, records: Records) -> dict[str, dict[str, list[int]]]:
    """Count the compared verdicts of each experiment with each preset; those without any are left out.

    A cell whose settings a preset does not change has the same runs there.
    """
    evidence = {preset: evidence_of(records, scale, preset) for preset in SIDE_BY_SIDE}
    found: dict[str, dict[str, list[int]]] = {}
    for name in names:
        counts = {}
        for preset, own in evidence.items():
            verdicts = Counter(one.shown_verdict for one in EXPERIMENTS[name].claims_of(own) if is_judged(one))
            counts[preset] = [verdicts[verdict] for verdict in SHORT]
        if any(map(sum, counts.values())):
            found[name] = counts
    return found


def is_judged(claim: Claim) -> bool:
    """Return whether the paper says something that a run can contradict."""
    return claim.tolerance != "" and claim.verdict != "follows"


def side_by_side(names: Sequence[str], scale: str, records: Records, title: str = "") -> Table:
    """Count verdicts under several presets, narrow enough for 80 columns; the last row has the sums."""
    found = verdicts_by_preset(names, scale, records)
    total = {
        preset: [sum(each) for each in zip(*(row[preset] for row in found.values()), strict=True)]
        for preset in SIDE_BY_SIDE
    }
    rows = [(name, *(numbers(row[preset]) for preset in SIDE_BY_SIDE)) for name, row in {**found, "all": total}.items()]
    return Table(title, ("name", *SIDE_BY_SIDE), rows, left=("name",))


def numbers(counts: Sequence[int]) -> str:
    return " ".join(f"{count or '-':>3}" for count in counts)


def counted(claims: Sequence[Claim]) -> tuple[str, ...]:
    """Return the number of claims per verdict, and the number of seeds."""
    counts = Counter(claim.shown_verdict for claim in claims)
    return (*(str(counts[verdict] or "") for verdict in VERDICTS.values()), seeds_of(claims))
