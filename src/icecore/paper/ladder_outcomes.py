"""Predictions about the ladder beside their outcomes."""

import itertools
import math
import statistics
from collections.abc import Sequence

from icecore.paper.bodies_tables import Outcome, theory_table
from icecore.paper.ladder_grid import GROUPS, WIDTHS
from icecore.paper.ladder_predictions import (
    CLASS_ALONE,
    MORE_LAYERS,
    NO_CLIFF,
    RANDOM_NEEDS_MORE,
    REACHES,
    ROUNDS_NEXT,
    SENSITIVITY_BEFORE_ROUNDS,
    SENSITIVITY_FIRST,
    SYMBOLS_MOVE,
)
from icecore.paper.ladder_steps import UNKNOWN, Step
from icecore.reporting.table import Table

BY_SYMBOLS = ("counting", "sorting")  # their difficulty is a number of symbols
BY_ROUNDS = ("k-hop", "cycles")


def order(steps: Sequence[Step]) -> Table:
    """Return the predicted order beside what was measured; a prediction without its runs is not run."""
    decided = [step for step in steps if step.number("Random") is not None]
    both = [step for step in decided if step.number("Normal") is not None]
    low = lower_half(decided)
    by_sensitivity, by_rounds = share_of_pairs(decided, "sensitivity"), share_of_pairs(decided, "rounds")
    factors = factors_per_doubling(decided)
    several, has_symbols = len(decided) > 1, any(len(own) > 1 for own in by_symbols(decided))
    measured = [
        Outcome(SENSITIVITY_FIRST, by_sensitivity, is_run=several),
        Outcome(SENSITIVITY_BEFORE_ROUNDS, difference(by_sensitivity, by_rounds), is_run=several),
        Outcome(ROUNDS_NEXT, share_of_pairs(low, "rounds"), is_run=several),
        (MORE_LAYERS, gained_by_layers(steps)),
        Outcome(SYMBOLS_MOVE, geometric_mean(factors), is_run=has_symbols),
        Outcome(NO_CLIFF, max(factors, default=None), is_run=has_symbols),
        Outcome(CLASS_ALONE, factor_between_groups(decided), is_run=bool(groups_by_length(decided))),
        Outcome(RANDOM_NEEDS_MORE, random_over_normal(steps), is_run=bool(both)),
    ]
    return theory_table(measured, "Ladder: the predicted order")


def is_reached(step: Step, kind: str) -> bool:
    return step.thresholds[kind].state == "reached"


def share_of_pairs(steps: Sequence[Step], name: str) -> float | None:
    """Return the share of pairs of a rung that Random reaches and one that it does not, ordered by a coordinate.

    It is the area under the curve of a classifier; a tie counts as a half. None without such pairs.
    """
    known = [step for step in steps if step.coordinate(name) != UNKNOWN]
    reached, others = (
        [step.coordinate(name) for step in known if is_reached(step, "Random") is it] for it in (True, False)
    )
    pairs = [(low, high) for low in reached for high in others]
    return statistics.fmean((low < high) + (low == high) / 2 for low, high in pairs) if pairs else None


def lower_half(steps: Sequence[Step]) -> list[Step]:
    """Return the steps whose sensitivity is at most the median."""
    known = [step.coordinate("sensitivity") for step in steps]
    return [step for step in steps if step.coordinate("sensitivity") <= statistics.median(known)] if known else []


def factors_per_doubling(steps: Sequence[Step]) -> list[float]:
    """Return by how much Random's width grows per doubling of symbols, between neighbouring difficulties.

    Two that are not reached tell nothing.
    """
    found = []
    for own in by_symbols(steps):
        for one, other in itertools.pairwise(own):
            if not (is_reached(one, "Random") or is_reached(other, "Random")):
                continue
            doublings = math.log2(other.rung.value / one.rung.value)
            found.append(factor(one, other) ** (1 / doublings))
    return found


def by_symbols(steps: Sequence[Step]) -> list[list[Step]]:
    """Return the steps of each task whose difficulty is a number of symbols, from few to many."""
    return [
        sorted((step for step in steps if step.rung.line == line), key=lambda step: step.rung.value)
        for line in BY_SYMBOLS
    ]


def factor(one: Step, other: Step, kind: str = "Random") -> float:
    first, second = one.number(kind), other.number(kind)
    assert first is not None
    assert second is not None
    return second / first


def gained_by_layers(steps: Sequence[Step]) -> float | None:
    """Return how many rungs more Normal reaches with four layers, of those that were run with two as well."""
    decided = [step for step in steps if step.rung.task in BY_ROUNDS and step.number("Normal") is not None]
    by_depth = {
        layers: {(step.rung.task, step.rung.value): step for step in decided if step.rung.layers == layers}
        for layers in (2, 4)
    }
    both = by_depth[2].keys() & by_depth[4].keys()
    return (
        float(sum(is_reached(by_depth[4][rung], "Normal") - is_reached(by_depth[2][rung], "Normal") for rung in both))
        if both
        else None
    )


def factor_between_groups(steps: Sequence[Step]) -> float | None:
    """Return the largest factor between the widths of two groups, at a length at which one is reached."""
    factors = [
        max(factor(one, other) for one, other in itertools.permutations(each, 2))
        for each in groups_by_length(steps)
        if any(is_reached(step, "Random") for step in each)
    ]
    return max(factors, default=None)


def groups_by_length(steps: Sequence[Step]) -> list[list[Step]]:
    """Return the word problems of each length at which all groups were run."""
    found: dict[int, list[Step]] = {}
    for step in steps:
        if step.rung.task == "word-problem":
            found.setdefault(step.rung.value, []).append(step)
    return [each for each in found.values() if len(each) == len(GROUPS)]


def random_over_normal(steps: Sequence[Step]) -> float | None:
    """Return the geometric mean of Random's width over Normal's, where both are reached."""
    both = [step for step in steps if all(is_reached(step, kind) for kind in step.thresholds)]
    pairs = [(step.number("Random"), step.number("Normal")) for step in both]
    return geometric_mean([one / other for one, other in pairs if one is not None and other is not None])


def geometric_mean(values: Sequence[float]) -> float | None:
    return statistics.geometric_mean(values) if values else None


def difference(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first - second


def guesses(steps: Sequence[Step]) -> Table:
    """Return which difficulties Random reaches, beside what was guessed."""
    by_line: dict[str, list[Step]] = {}
    for step in steps:
        by_line.setdefault(step.rung.line, []).append(step)
    rows, right, known = [], 0, 0
    for line, (values, reason) in REACHES.items():
        words = []
        for step in sorted(by_line.get(line, []), key=lambda step: step.rung.value):
            if step.number("Random") is None:
                words.append(f"{step.rung.value} not finished")
                continue
            held = is_reached(step, "Random") == (step.rung.value in values)
            known, right = known + 1, right + held
            words.append(f"{step.rung.value} {'held' if held else 'failed'}")
        guessed = ", ".join(map(str, values)) or "none"
        rows.append((line, guessed, ", ".join(words) or "not run", reason))
    widest = WIDTHS["paper"][-1]
    title = f"Guesses: which difficulties does Random reach by width {widest}? {right} of {known} held"
    headings = ("task", "guessed", "outcome", "why")
    return Table(title, headings, rows, left=headings, wraps=("why", "outcome"), secondary=("why",))
