"""Findings beyond the paper, a sentence per question: other bodies, the ladder of tasks, thaw, transplants."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from icecore.paper.bodies_predictions import PREDICTED_WIDTH
from icecore.paper.scales import FOUR
from icecore.reporting.claim import Claim

FROM_RANDOM = "random body"
CLEARLY = 5.0  # points between two medians; fewer are not told apart


def beyond_the_paper(claims: Mapping[str, Sequence[Claim]], scale: str, line: float) -> list[str]:
    """Return the sentences that the claims allow; a task counts as solved from `line` % on."""
    found = [
        other_bodies(known(claims.get("bodies", ())), PREDICTED_WIDTH[scale], line),
        ladder(claims.get("ladder", ())),
        thaws(known(claims.get("thaw", ()))),
        transplants(known(claims.get("transplant", ()))),
    ]
    return [sentence for sentence in found if sentence]


def known(claims: Sequence[Claim]) -> list[Claim]:
    return [claim for claim in claims if claim.n > 0]


def other_bodies(claims: Sequence[Claim], width: int, line: float) -> str:
    """Say how many tasks each frozen body solves at one width, with its first initialization."""
    solved: dict[str, list[bool]] = defaultdict(list)
    for claim in claims:
        task, kind, *_, init = claim.cell.split(", ")
        body = claim.cell.split(", ")[2]
        if task in FOUR and kind == f"Random {width}" and (init == "matched" or body in ("gru", "lstm")):
            solved[body].append(claim.ours is not None and claim.ours >= line)
    if len(solved) < 2:
        return ""
    most_first = sorted(solved.items(), key=lambda one: -sum(one[1]))
    words = [f"{body} {sum(each)} of {len(each)}" for body, each in most_first]
    return f"Tasks that frozen bodies of width {width} solve with {line:g} % or more: {', '.join(words)}."


def ladder(claims: Sequence[Claim]) -> str:
    reached: dict[str, dict[str, bool]] = defaultdict(dict)  # by difficulty, then by kind
    for claim in claims:
        rung, _, kind = claim.cell.removesuffix(": width").rpartition(", ")
        if claim.n > 0 and "not run" not in claim.note:
            reached[rung][kind] = claim.ours is not None
    both = [kinds for kinds in reached.values() if {"Random", "Normal"} <= kinds.keys()]
    counts = {kind: sum(kinds[kind] for kinds in both) for kind in ("Random", "Normal")}
    return (
        f"Of {len(both)} difficulties on the ladder of tasks, frozen bodies reach {counts['Random']} and trained ones "
        f"{counts['Normal']}."
        if both
        else ""
    )


def thaws(claims: Sequence[Claim]) -> str:
    counts = Counter(claim.note for claim in claims if claim.note)
    told = {answer: count for answer, count in counts.items() if answer not in ("nothing to refine", "cannot tell")}
    words = [f"{count} {answer}" for answer, count in sorted(told.items(), key=lambda one: -one[1])]
    return f"The mechanism after a thaw, in {sum(told.values())} cells: {', '.join(words)}." if words else ""


def transplants(claims: Sequence[Claim]) -> str:
    """Say how often a body trained on another task is a better or a worse reservoir than a random one."""
    medians = {
        (task, width, source): claim.ours
        for claim in claims
        if claim.ours is not None
        for task, width, source in [claim.cell.split(", ")]
    }
    gains = [
        ours - medians[task, width, FROM_RANDOM]
        for (task, width, source), ours in medians.items()
        if source not in (FROM_RANDOM, f"body of {task}") and (task, width, FROM_RANDOM) in medians
    ]
    if not gains:
        return ""
    better, worse = sum(gain > CLEARLY for gain in gains), sum(gain < -CLEARLY for gain in gains)
    return (
        f"Around a body trained on another task, new embeddings are more than {CLEARLY:g} points better than around a "
        f"random one in {better} of {len(gains)} cells, and worse in {worse}."
    )
