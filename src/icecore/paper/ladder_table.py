"""The ladder as a table and as claims: coordinates, baseline, and the smallest sufficient widths."""

from collections.abc import Sequence

from icecore.paper.ladder_grid import KINDS, TARGET, Rung
from icecore.paper.ladder_steps import UNKNOWN, Step
from icecore.reporting.claim import Claim, without_verdict
from icecore.reporting.table import Table

COORDINATES = ("sensitivity", "rounds", "symbols")
HEADINGS = ("task", "difficulty", *COORDINATES, "class", "baseline", *KINDS, "seeds", "rates")


def ladder_table(steps: Sequence[Step], rungs: int, widest: int) -> Table:
    """Return a row per rung that was run."""
    notes = (
        "ordered by sensitivity, then rounds, then symbols; 32 (16 to 64): median, and the range of the seeds' widths",
        f"> {widest}: no width up to {widest} suffices, with these steps; wider ones than the one that suffices are "
        "not run",
    )
    rows = [
        (
            step.rung.line,
            step.rung.difficulty,
            *(coordinate(step, name) for name in COORDINATES),
            str(step.coordinates.get("circuit_class") or ""),
            f"{100 * step.baseline[1]:.1f}",
            *(str(step.thresholds[kind]) for kind in KINDS),
            seeds_of(step),
            "; ".join(" ".join(f"{rate:g}" for rate in step.rates[kind]) or "-" for kind in KINDS),
        )
        for step in steps
    ]
    missing = (f"{rungs - len(steps)} of {rungs} rungs were not run",) if len(steps) < rungs else ()
    title = f"Ladder: smallest width with a median test accuracy of {TARGET:g} % or more; baseline in %"
    return Table(
        title,
        HEADINGS,
        rows,
        left=("task", "difficulty", "class", *KINDS, "rates"),
        notes=(*notes, *missing) if steps else missing,
        secondary=("rates", "class", "symbols", "rounds", "seeds"),
    )


def coordinate(step: Step, name: str) -> str:
    value = step.coordinate(name)
    return "" if value == UNKNOWN else f"{value:.1f}" if name == "sensitivity" else f"{value:g}"


def seeds_of(step: Step) -> str:
    low, high = min(own := [each.seeds for each in step.thresholds.values() if each.seeds]), max(own)
    return str(low) if low == high else f"{low} to {high}"


def width_claims(name: str, rungs: Sequence[Rung], steps: Sequence[Step]) -> list[Claim]:
    """Return a claim per rung and kind. Where no width suffices, the note says so and there is no number."""
    known = {step.rung: step for step in steps}
    found = []
    for rung in rungs:
        for kind in KINDS:
            step = known.get(rung)
            threshold = None if step is None else step.thresholds[kind]
            width = None if threshold is None else threshold.width
            is_run = threshold is not None and threshold.state != "not run"
            found.append(
                Claim(
                    name,
                    f"{rung}, {kind}: width",
                    None,
                    width,
                    () if threshold is None else tuple(each for each in threshold.by_seed.values() if each is not None),
                    None,
                    "",
                    "not in the paper",
                    without_verdict(1.0 if is_run else None),
                    digits=0,
                    note=str(threshold) if is_run else "",
                    seeds=threshold.seeds if threshold is not None else 0,
                    place=(str(rung), kind) if width is not None else None,
                    sources=() if step is None else step.sources[kind],
                )
            )
    return found
