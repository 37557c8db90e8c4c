"""Findings in a few sentences, from the claims: what a reader sees first."""

from collections import Counter
from collections.abc import Mapping, Sequence

from icecore.paper import EXPERIMENTS
from icecore.paper.accuracy import TRAIN
from icecore.paper.findings_beyond import beyond_the_paper
from icecore.paper.numbers import LAPTOP_LINE, SOLVED
from icecore.paper.summary import is_judged
from icecore.reporting.claim import Claim

Claims = Mapping[str, Sequence[Claim]]  # by experiment
FULL, NARROW = "Random 1024", "Random 16"


def findings(claims: Claims, scale: str, reconstructed: Claims | None = None) -> list[str]:
    """Return the sentences that the claims allow; `reconstructed` are those of the preset to compare with."""
    line = 100 - SOLVED.points if scale == "paper" else LAPTOP_LINE
    like = "" if scale == "paper" else "in place of "  # a laptop's body is smaller
    table1, table2 = by_column(claims.get("table1", ())), by_column(claims.get("table2", ()))
    found = [
        solved(f"A frozen random body with trained embeddings ({like}{FULL})", table1.get(FULL, []), line),
        solved(f"The same body trained throughout ({like}Normal 1024)", table1.get("Normal 1024", []), line),
        too_narrow(f"{like}{NARROW}", table1.get(NARROW, [])),
        partly_trained(table2, line),
        differing(claims, reconstructed),
        *beyond_the_paper(claims, scale, line),
    ]
    return [sentence for sentence in found if sentence]


def by_column(claims: Sequence[Claim]) -> dict[str, list[Claim]]:
    """Return the test accuracies that were measured, by the column of their table."""
    found: dict[str, list[Claim]] = {}
    for claim in claims:
        if claim.ours is not None and claim.place is not None and not claim.place[0].endswith(TRAIN):
            found.setdefault(claim.place[1], []).append(claim)
    return found


def solved(name: str, claims: Sequence[Claim], line: float) -> str:
    """Say which tasks a kind of body solves, in the median of its seeds."""
    if not claims:
        return ""
    done = [task_of(claim) for claim in claims if number(claim) >= line]
    rest = [f"{task_of(claim)} reaches {number(claim):.1f} %" for claim in claims if number(claim) < line]
    which = f" with {line:g} % or more: {', '.join(done)}" if done else ""
    return f"{'; '.join([f'{name} solves {len(done)} of {counted(claims)}{which}', *rest])}."


def too_narrow(name: str, claims: Sequence[Claim]) -> str:
    known = [claim for claim in claims if claim.baseline is not None]
    if not known:
        return ""
    below = [task_of(claim) for claim in known if number(claim) <= (claim.baseline or 0.0)]
    where = f" ({', '.join(below)})" if below else ""
    return (
        f"A narrow frozen body ({name}) is no better than the best rule without learning on {len(below)} of "
        f"{counted(known)}{where}."
    )


def partly_trained(table2: Mapping[str, Sequence[Claim]], line: float) -> str:
    worst = {part: min(claims, key=number) for part, claims in table2.items()}
    failing = [
        f"{part} reaches {number(claim):.1f} % on {task_of(claim)}"
        for part, claim in worst.items()
        if number(claim) < line
    ]
    return f"With fewer parts trained, no body solves every task: {', '.join(failing)}." if failing else ""


def differing(claims: Claims, other: Claims | None) -> str:
    """Count the numbers that differ from the paper's, and those of them that do not with another preset."""
    differ = {(name, claim.cell): claim for name, each in claims.items() for claim in each if is_different(claim)}
    if not differ:
        return ""
    counts = [f"{count} in {EXPERIMENTS[name].heading}" for name, count in Counter(name for name, _ in differ).items()]
    text = f"{len(differ)} of the paper's numbers differ by more than the tolerance: {', '.join(counts)}."
    again = {(name, claim.cell): claim for name, each in (other or {}).items() for claim in each}
    tried = [
        again[place].verdict
        for place, claim in differ.items()
        if place in again and again[place].ours is not None and again[place].sources != claim.sources
    ]
    if tried:
        text += (
            " Tried again with unfiltered data and the batch of two GPUs (preset reconstructed), "
            f"{tried.count('reproduced')} of {len(tried)} are reproduced."
        )
    return text


def is_different(claim: Claim) -> bool:
    return claim.verdict == "differs" and is_judged(claim)


def counted(claims: Sequence[Claim]) -> str:
    return "1 task" if len(claims) == 1 else f"{len(claims)} tasks"


def number(claim: Claim) -> float:
    assert claim.ours is not None
    return claim.ours


def task_of(claim: Claim) -> str:
    assert claim.place is not None
    return claim.place[0]
