"""Claims: numbers of the paper beside ours, and the records behind ours."""

import itertools
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from icecore.reporting.verdict import (
    LEAST_SEEDS,
    Medians,
    Null,
    Question,
    judge_table,
    resampled_combined,
    resampled_groups,
    resampled_least,
    resampled_medians,
)
from icecore.store.record_schema import PRECISIONS, is_valid
from icecore.store.records import Record, Records, key_of


@dataclass(frozen=True)
class Source:
    """A cell behind a claim: its values, and the run of each."""

    cell: str
    values: tuple[float, ...]
    runs: tuple[str, ...] = ()  # the key of each value's run
    analysis: str = ""  # instead of runs: the stored analysis that has the value

    @staticmethod
    def of(cell: object, runs: Sequence[Record], value: Callable[[Record], float]) -> "Source":
        return Source(str(cell), tuple(map(value, runs)), tuple(map(key_of, runs)))


def percentage(run: Record) -> float:
    return 100 * run["accuracy"]


def values_of(sources: Sequence[Source]) -> tuple[float, ...]:
    return tuple(itertools.chain.from_iterable(source.values for source in sources))


@dataclass(frozen=True)
class Claim:
    """A number in % accuracy, or in the unit of `cell`, with `paper` and `tolerance` if there is something to judge."""

    name: str
    cell: str
    paper: float | None
    ours: float | None  # the median
    values: tuple[float, ...]  # one per seed, in their order
    baseline: float | None  # the best rule that needs no learning
    tolerance: str
    reason: str
    verdict: str  # reproduced, differs, undecided, not run, nothing to compare with, or follows
    digits: int = 1  # shown after the decimal point
    note: str = ""  # such as a replication's number
    explanation: str = ""  # why the number differs
    exact_match: float | None = None  # exact match of answers of several tokens
    seeds: int | None = None  # their number, if the claim compares several cells
    place: tuple[str, str] | None = None  # row and column in the table, if any
    setting: str = ""  # shared by its records, if any
    allowed: tuple[float, float] | None = None  # the range of the tolerance, if seeds decide
    compared: str = ""  # one of COMBINED, if it compares the medians of several cells
    by_data_seed: tuple[tuple[float, ...], ...] = ()  # the values of each data seed, if there are several
    is_worst: bool = False  # `ours` is the worst restart, not the median
    null: Null | None = None
    interval: tuple[float, float] | None = None  # interval of our median
    p: float | None = None  # p-value of no difference, corrected over the table
    different: bool | None = None
    equivalent: bool | None = None
    sources: tuple[Source, ...] = ()  # cells behind it

    @property
    def n(self) -> int:
        return len(self.values) if self.seeds is None else self.seeds

    @property
    def is_weak(self) -> bool:
        """Tell whether a null would pass too."""
        return self.null is not None and self.null.agrees

    @property
    def shown_verdict(self) -> str:
        return f"{self.verdict} (weak)" if self.verdict == "reproduced" and self.is_weak else self.verdict

    @property
    def spread(self) -> tuple[float, float] | None:
        return (min(self.values), max(self.values)) if self.values else None

    @property
    def remarks(self) -> str:
        return "; ".join(filter(None, (self.explanation, self.note)))


def median_of(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def seeds_in_words(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def seeds_of(claims: Sequence[Claim]) -> str:
    """Return the number of seeds behind claims: `3`, `1 to 10`, or nothing."""
    counts = sorted({claim.n for claim in claims if claim.n})
    return " to ".join(map(str, dict.fromkeys((*counts[:1], *counts[-1:]))))


def verdict_of(ours: float | None, agrees: bool) -> str:
    return "not run" if ours is None else "reproduced" if agrees else "differs"


def strictly_judged(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims of one table with verdicts from intervals over seeds; those without a range stay as they are.

    An undecided claim with too few seeds says how many it needs.
    """
    judged = [claim for claim in claims if claim.allowed is not None]
    answers = iter(judge_table([question_of(claim) for claim in judged]))
    found: list[Claim] = []
    for claim in claims:
        if claim.allowed is None:
            found.append(claim)
            continue
        answer, note = next(answers), claim.note
        if answer.verdict == "undecided" and answer.interval is None:
            note = "; ".join(filter(None, (f"{claim.n} of the {LEAST_SEEDS} seeds that an interval needs", note)))
        found.append(replace(claim, note=note, **vars(answer)))
    return found


def question_of(claim: Claim) -> Question | None:
    if claim.ours is None:
        return None
    assert claim.allowed is not None
    least, most = claim.allowed
    return Question(medians_of(claim), least, most, claim.paper, not least <= claim.ours <= most)


def medians_of(claim: Claim) -> Medians | None:
    """Return the claim's number for each resample of the seeds; several cells are resampled independently.

    Where there are several data seeds, these are resampled first.
    """
    if claim.compared:
        return resampled_combined(claim.compared, [source.values for source in claim.sources])
    if claim.by_data_seed:
        return resampled_groups(claim.by_data_seed)
    return resampled_least(claim.values) if claim.is_worst else resampled_medians(claim.values)


def around(paper: float, points: float) -> tuple[float, float]:
    return paper - points, paper + points


def nearest_baseline(baselines: dict[str, float], paper: float, points: float) -> Null | None:
    """Return the rule without learning that comes nearest to the paper's number, in %."""
    if not baselines:
        return None
    name, value = min(baselines.items(), key=lambda item: abs(100 * item[1] - paper))
    return Null(name.replace("_", " "), 100 * value, abs(100 * value - paper) <= points)


def shown(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def without_verdict(ours: float | None) -> str:
    return "not run" if ours is None else "nothing to compare with"


Precisions = dict[str, list[Record]]  # records of a setting by precision, one per seed


def by_precision(records: Records) -> dict[str, Precisions]:
    """Return records by setting and precision, ordered by seed."""
    found: dict[str, Precisions] = defaultdict(lambda: {precision: [] for precision in PRECISIONS})
    for record in records.by_run().values():
        if is_valid(record):
            found[record["setting"]][record["config"]["precision"]].append(record)
        else:
            records.warn(
                f"{records.path}: the record of run {record['run']} is damaged and skipped; delete its line, and the "
                "same command trains it again"
            )
    for each in found.values():
        for runs in each.values():
            runs.sort(key=lambda record: record["seed"])
    return found


def of_most_seeds(each: Precisions) -> list[Record]:
    """Return the records of the precision with the most seeds; among equals, of the most exact one.

    Precisions are never mixed: that would allow picking seeds.
    """
    return max(each.values(), key=len, default=[])


def precision_of(runs: Sequence[Record]) -> str:
    return runs[0]["config"]["precision"] if runs else ""
