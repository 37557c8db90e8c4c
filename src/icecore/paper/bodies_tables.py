"""Tables of `reproduce bodies`: accuracies, bits, and which predictions held."""

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from icecore.paper.bodies_predictions import (
    ARITHMETIC,
    LINE,
    LOOKUP,
    MEMORY,
    NO_PARITY,
    PARITY,
    PREDICTED_WIDTH,
    SOLVES,
    Theory,
)
from icecore.paper.cells import PaperCell
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment
from icecore.paper.scales import FOUR
from icecore.paper.settings import known_setting
from icecore.reporting.table import Table
from icecore.reporting.verdict import interval_of, resampled_medians
from icecore.store.records import Record

FROM_ZERO_TO_ONE = ("linear attention", "retnet", "gla", "mamba-2", "mamba", "deltanet")
NEGATIVE = "deltanet, negative"  # eigenvalues
INTERVAL = "median (95 % interval, or range of fewer than 5 seeds)"
Found = list[tuple[PaperCell, list[Record]]]


def tables(experiment: Experiment, evidence: Evidence) -> list[Table]:
    """Return the tables of what was run, and of the predictions."""
    found = [(cell, runs) for cell in experiment.of(evidence) if (runs := evidence.runs(cell))]
    groups = dict.fromkeys((cell.name.kind, cell.name.width) for cell, _ in found if cell.name.task in FOUR)
    return [
        *(accuracies(f"{kind} {width}", kind, width, found) for kind, width in groups),
        *([memorized(found)] if any(cell.name.task == "memorization" for cell, _ in found) else []),
        *([parities(found)] if any(cell.name.task == "parity" for cell, _ in found) else []),
        guesses(found, evidence.scale),
        theories(found),
    ]


def body_of(cell: PaperCell) -> tuple[str, str]:
    """Return a cell's body and initialization."""
    line, _, init = cell.name.variant.rpartition(", ")
    return line, init


def percentages(runs: Sequence[Record], key: str = "accuracy") -> list[float]:
    return [100 * run[key] for run in runs]


def with_interval(values: Sequence[float]) -> str:
    """Return the median with its interval or, with few seeds, their range."""
    if len(values) == 1:
        return f"{values[0]:.1f}"
    medians = resampled_medians(values)
    low, high = (min(values), max(values)) if medians is None else interval_of(medians)
    return f"{statistics.median(values):.1f} ({low:.1f} to {high:.1f})"


def state_of(cell: PaperCell) -> str:
    """Return the size of a sequence's state; computed once, since it needs the model."""

    def size() -> str:
        made = cell.made
        numbers = made.model.state_size(made.task.max_length - 1)
        return "" if numbers is None else f"{numbers:,}"

    return known_setting(f"state of {cell.scale}, {cell.preset}: {cell.label}", size)


def accuracies(title: str, kind: str, width: int | None, found: Found) -> Table:
    """Return a row per body and initialization and a column per task, below the baselines."""
    here = {
        (cell.name.task, *body_of(cell)): (cell, runs)
        for cell, runs in found
        if (cell.name.kind, cell.name.width) == (kind, width) and cell.name.task in FOUR
    }
    best: dict[str, float] = {}
    for (task, *_), (_, runs) in here.items():
        best[task] = 100 * max(runs[0]["baselines"].values(), default=0.0)
    headings = ("", *FOUR, "seeds", "rate", "frozen", "state")
    rows = [("best baseline", *(f"{best[task]:.1f}" if task in best else "" for task in FOUR), "", "", "", "")]
    for line, init in dict.fromkeys((line, init) for _, line, init in here):
        own = {task: here[task, line, init] for task in FOUR if (task, line, init) in here}
        rates = {rate_of(each) for each in own.values()}
        seeds, frozen, state = (
            {pick(each) for each in own.values()} for pick in (count_of, frozen_of, longest_state_of)
        )
        cells = [with_interval(percentages(own[task][1])) if task in own else "-" for task in FOUR]
        rows.append((f"{line}, {init}", *cells, span(seeds), spelled(rates), span(frozen), span(state)))
    return Table(
        f"{title}: test accuracy in %, {INTERVAL}",
        headings,
        rows,
        left=("",),
        notes=("frozen: parameters; state: numbers that a sequence's last token reads of those before it, per task",),
        secondary=("seeds", "rate", "frozen", "state"),
    )


def count_of(one: tuple[PaperCell, list[Record]]) -> int:
    return len(one[1])


def rate_of(one: tuple[PaperCell, list[Record]]) -> float:
    return rate_of_runs(one[1])


def rate_of_runs(runs: Sequence[Record]) -> float:
    return float(runs[0]["config"]["optimization"]["lr"])


def frozen_of(one: tuple[PaperCell, list[Record]]) -> int:
    return int(one[1][0].get("frozen_parameters", 0))


def longest_state_of(one: tuple[PaperCell, list[Record]]) -> int:
    return int((state_of(one[0]) or "0").replace(",", ""))


def span(values: set[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def spelled(values: set[float]) -> str:
    return ", ".join(f"{value:g}" for value in sorted(values))


def memorized(found: Found) -> Table:
    """Return the bits of memorization, as the paper counts them and from the loss."""
    rows = []
    for cell, runs in found:
        own = [run for run in runs if "capacity" in run]
        if cell.name.task == "memorization" and own:
            bits, by_loss, each = (
                statistics.median(run["capacity"][key] for run in own)
                for key in ("accuracy_bits", "loss_bits", "accuracy_bits_per_trained")
            )
            trained = span({int(run["trained_parameters"]) for run in own})
            rows.append(
                (
                    ", ".join(body_of(cell)),
                    with_interval(percentages(own)),
                    f"{bits:,.0f}",
                    f"{by_loss:,.0f}",
                    trained,
                    f"{each:.3f}",
                    str(len(own)),
                )
            )
    headings = ("", "accuracy, %", "bits", "bits from loss", "trained", "bits per trained parameter", "seeds")
    return Table("Random: memorization", headings, rows, left=("",))


def parities(found: Found) -> Table:
    rows = [
        (", ".join(body_of(cell)), with_interval(percentages(runs)), str(len(runs)))
        for cell, runs in found
        if cell.name.task == "parity"
    ]
    return Table(f"Normal: parity, {INTERVAL}", ("", "accuracy, %", "seeds"), rows, left=("",))


def medians_of(found: Found, wanted: Callable[[PaperCell], bool]) -> dict[tuple[str, str], float]:
    """Return the median accuracy in % by task and body."""
    return {
        (cell.name.task, body_of(cell)[0]): statistics.median(percentages(runs)) for cell, runs in found if wanted(cell)
    }


def is_predicted(cell: PaperCell) -> bool:
    """Tell whether predictions are about this cell: Random, at the first width, with its first initialization."""
    line, init = body_of(cell)
    is_first = init == "matched" or line in ("lstm", "gru")
    return cell.name.kind == "Random" and cell.name.width == PREDICTED_WIDTH[cell.scale] and is_first


def guesses(found: Found, scale: str) -> Table:
    """Return which bodies solve which tasks, beside what was predicted."""
    measured = medians_of(found, is_predicted)
    rows, right, known = [], 0, 0
    for line, (solved, reason) in SOLVES[scale].items():
        words = []
        for task in FOUR:
            ours = measured.get((task, line))
            expected = task in solved
            if ours is None:
                words.append(f"{'yes' if expected else 'no'}, not run")
                continue
            held = (ours >= LINE) == expected
            known, right = known + 1, right + held
            words.append(f"{'yes' if expected else 'no'}, {ours:.1f}: {'held' if held else 'failed'}")
        rows.append((line, *words, reason))
    question = f"does Random {PREDICTED_WIDTH[scale]} reach {LINE:g} %?"
    title = f"Predictions: {question} Predicted, measured: {right} of {known} held"
    return Table(title, ("", *FOUR, "why"), rows, left=("", *FOUR, "why"), wraps=("why",), secondary=("why",))


def theories(found: Found) -> Table:
    """Return the predictions of the literature, what was measured, and which held."""
    accuracy = medians_of(found, lambda cell: is_predicted(cell) or cell.name.task == "parity")
    bits = {
        body_of(cell)[0]: statistics.median(run["capacity"]["accuracy_bits"] for run in runs)
        for cell, runs in found
        if cell.name.task == "memorization" and all("capacity" in run for run in runs)
    }
    best = {cell.name.task: 100 * max(runs[0]["baselines"].values(), default=0.0) for cell, runs in found}
    fixed, needle = "random attention", accuracy.get(("needle", "random attention"))
    sums = [accuracy.get((task, fixed)) for task in ("modular-addition", "decimal-addition")]
    recurrent = [accuracy.get(("parity", line)) for line in FROM_ZERO_TO_ONE]
    ours: list[tuple[Theory, float | None]] = [
        (LOOKUP, None if needle is None else needle - best["needle"]),
        (ARITHMETIC, least_of(sums)),
        (MEMORY, bits[fixed] / bits["transformer"] if {fixed, "transformer"} <= bits.keys() else None),
        (NO_PARITY, most_of(recurrent)),
        (PARITY, accuracy.get(("parity", NEGATIVE))),
    ]
    return theory_table(ours)


class Outcome(NamedTuple):
    """A prediction, what was measured, and from how many of the comparisons that the prediction is about.

    With runs but no value, the verdict is "cannot tell".
    """

    theory: Theory
    value: float | None
    known: int = 1
    of: int = 1
    is_run: bool = False

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "cannot tell" if self.is_run else "not run"
        verdict = "held" if self.theory.least <= self.value <= self.theory.most else "failed"
        return verdict if self.known >= self.of else f"{verdict} ({self.known} of {self.of})"


def outcome(theory: Theory, combine: Callable[[list[float]], float], values: Sequence[float], of: int) -> Outcome:
    """Return a prediction's outcome from the known ones of its comparisons, without a value if none is known."""
    return Outcome(theory, combine([*values]) if values else None, len(values), of)


def theory_table(
    ours: Sequence[tuple[Theory, float | None] | Outcome], title: str = "Predictions of the literature, by medians"
) -> Table:
    outcomes = [each if isinstance(each, Outcome) else Outcome(each[0], each[1]) for each in ours]
    rows = [
        (
            each.theory.label,
            each.theory.measure,
            f"{each.theory.least:g} to {each.theory.most:g}",
            "" if each.value is None else f"{each.value:.2f}",
            each.verdict,
            each.theory.source,
        )
        for each in outcomes
    ]
    is_partial = any(each.value is not None and each.known < each.of for each in outcomes)
    notes = ("in brackets: how many of the prediction's comparisons are known",) if is_partial else ()
    headings = ("prediction", "measured", "range", "ours", "", "source")
    wraps = ("measured", "source")
    left = ("prediction", *wraps, "")
    return Table(title, headings, rows, left=left, wraps=wraps, notes=notes, secondary=("source", "range"))


def least_of(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return min(known) if len(known) == len(values) else None


def most_of(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None
