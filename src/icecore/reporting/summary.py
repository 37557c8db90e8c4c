"""How much of the paper is reproduced: a row a table or figure."""

from collections import Counter
from collections.abc import Sequence

from icecore.reporting.claim import Claim, seeds_of
from icecore.reporting.claims import claims_of, spent_on
from icecore.store import Records
from icecore.sweeps.entries import ENTRIES

VERDICTS = {  # by the heading of their column
    "reproduced": "reproduced",
    "differ": "differs",
    "without a number in the paper": "nothing to compare with",
    "not run": "not run",
}
HEADINGS = ("name", "what", *VERDICTS, "seeds", "minutes")


def summary_of(names: Sequence[str], scale: str, preset: str, records: Records) -> list[tuple[str, ...]]:
    """Rows under `HEADINGS`. Minutes are of all runs behind a row, those that another row has too as well."""
    claims = claims_of(names, scale, preset, records)
    quiet = Records(records.path.parent)  # what is damaged has been named
    return [
        (
            name,
            ENTRIES[name].title,
            *counted([claim for claim in claims if claim.name == name]),
            ", ".join(f"{spent.seconds / 60:,.1f}" for spent in spent_on([name], scale, preset, quiet)),
        )
        for name in names
    ]


def counted(claims: Sequence[Claim]) -> tuple[str, ...]:
    """How many have each verdict, and of how many seeds they are."""
    counts = Counter(claim.verdict for claim in claims)
    return (*(str(counts[verdict] or "") for verdict in VERDICTS.values()), seeds_of(claims))
