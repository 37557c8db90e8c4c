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


def counted(claims: Sequence[Claim]) -> tuple[str, ...]:
    """Return the number of claims per verdict, and the number of seeds."""
    counts = Counter(claim.shown_verdict for claim in claims)
    return (*(str(counts[verdict] or "") for verdict in VERDICTS.values()), seeds_of(claims))
