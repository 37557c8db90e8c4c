"""Numbers within sentences that come from the records: each stands before a comment that says what it is.

    94.8<!-- table1: parentheses, Random 1024 --> in the median, and with the other stream
    87.4, 87.8 and 89.0<!-- seeds of table1 with readme: parentheses, Normal 1024 -->.

After the colon stands a cell, or several with ` | ` between them, whose seeds are then taken together. Before it may
stand what is quoted of it (`KINDS`; by default the median) and the preset or precision. Of a JSON file in the folder
of results the cell is a path of keys: `.735<!-- analyses/a.json: analyses/modular/trained/circularity -->`. `COUNTS`
are of a whole table: `14<!-- reproduced of table1 -->`. How many digits there are stays as it was written.
"""

import functools
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icecore.errors import InputError, require, unknown_name
from icecore.reporting.claim import Claim, by_precision
from icecore.reporting.claims import TRAIN, claims_of, spent_on
from icecore.reporting.soundness import PRECISIONS
from icecore.reporting.stored_tables import read_results
from icecore.reporting.summary import VERDICTS
from icecore.store import Records
from icecore.sweeps.entries import ENTRIES
from icecore.sweeps.paper import PRESETS

NUMBER = r"(?:\d[\d,]*\d|\d)(?:\.\d+)?|\.\d+"
SEPARATOR = re.compile(", | and ")
QUOTE = re.compile(
    rf"(?P<numbers>(?:(?:{NUMBER})(?:, | and ))*(?:{NUMBER})|\b[A-Za-z]+)?"
    r"<!-- (?:(?P<what>\w+) of )?(?P<source>[\w./-]+)(?: with (?P<preset>\w+))?(?: in (?P<precision>\w+))?"
    r"(?:: (?P<cells>[^<>]+))? -->"
)
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

# Of the seeds of some cells.
STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "median": statistics.median,
    "lowest": min,
    "highest": max,
    "mean": statistics.fmean,
}
# Of the claims of some cells.
ATTRIBUTES: dict[str, Callable[[Claim], float | None]] = {
    "paper": lambda claim: claim.paper,
    "ours": lambda claim: claim.ours,  # also of what is no median, such as a ratio
    "floor": lambda claim: claim.floor,
    "whole": lambda claim: claim.whole_answers,
}
# Of a whole table: also how many numbers of ours, as they are shown, are on a side of the paper's.
COUNTS = ("runs", "minutes", "claims", "reproduced", "differ", "below", "above")
SEEDS = "seeds"  # a list of them
NUMBER_OF_SEEDS = "number"  # in words: three
KINDS = (*STATISTICS, *ATTRIBUTES, *COUNTS, SEEDS, NUMBER_OF_SEEDS)
STORED, PERCENT = "value", "percent"  # of a JSON file: as it is, or 100 times that


@dataclass(frozen=True)
class Quote:
    """What a comment asks for."""

    what: str
    source: str
    preset: str
    precision: str | None
    cells: tuple[str, ...]

    @property
    def is_stored(self) -> bool:
        """Whether it is of a JSON file."""
        return self.source.endswith(".json")


class Quotes:
    """The numbers that comments name, from a folder of results."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.file = functools.cache(lambda name: read_results(results / name))
        self.claims_by_cell = functools.cache(self.read_claims)

    def filled(self, text: str) -> str:
        """The text with every number that a comment names as it is now."""
        return QUOTE.sub(self.replaced, text)

    def replaced(self, match: re.Match[str]) -> str:
        what = match["what"] or (STORED if match["source"].endswith(".json") else "median")
        cells, numbers = match["cells"] or "", match["numbers"] or ""
        if not cells and what not in COUNTS:
            return match[0]  # another comment
        comment = match[0].removeprefix(numbers)
        if not numbers:
            raise InputError(f"'{comment}' has no number before it, without a space between them")
        written = numbers if what == SEEDS else SEPARATOR.split(numbers)[-1]
        if what != NUMBER_OF_SEEDS and not any(map(str.isdigit, written)):
            raise InputError(f"'{comment}' has no number before it, but '{written}'")
        preset = match["preset"] or PRESETS[0]
        quote = Quote(what, match["source"], preset, match["precision"], tuple(cells.split(" | ")))
        try:
            return numbers.removesuffix(written) + self.words(quote, written) + comment
        except InputError as error:
            raise InputError(f"'{comment}': {error}") from error

    def words(self, quote: Quote, written: str) -> str:
        for kind, name, known in (
            ("number", quote.what, (STORED, PERCENT) if quote.is_stored else KINDS),
            ("preset", quote.preset, PRESETS),
            ("precision", quote.precision, (None, *PRECISIONS)),
        ):
            if name not in known:
                raise unknown_name(kind, str(name), [each for each in known if each])
        if quote.what in COUNTS:
            return alike(self.count(quote), written)
        is_of_one = quote.is_stored or quote.what in ATTRIBUTES
        require(len(quote.cells) == 1 or not is_of_one, f"{quote.what} is of one cell, not of {len(quote.cells)}")
        if quote.is_stored:
            return alike(self.stored(quote), written)
        if quote.what in ATTRIBUTES:
            (claim,) = self.claims(quote)
            value = ATTRIBUTES[quote.what](claim)
            if value is None:
                raise InputError("there is no such number")
            return alike(value, written)
        seeds = self.seeds(quote)
        if quote.what == SEEDS:
            *rest, last = (alike(value, written) for value in sorted(seeds))
            return f"{', '.join(rest)} and {last}" if rest else last
        if quote.what == NUMBER_OF_SEEDS:
            word = WORDS[len(seeds)] if len(seeds) < len(WORDS) else str(len(seeds))
            return word.capitalize() if written[0].isupper() else word
        return alike(STATISTICS[quote.what](seeds), written)

    def count(self, quote: Quote) -> float:
        if quote.source == "all" and quote.what in ("runs", "minutes"):
            runs = Records(self.results).by_run().values()
            seconds = sum(run.get("seconds", 0.0) / run.get("seeds_at_once", 1) for run in runs)
            return len(runs) if quote.what == "runs" else seconds / 60
        of_cells = [name for name, entry in ENTRIES.items() if entry.cells is not None]
        if quote.source not in (*of_cells, "all"):
            raise unknown_name("table or figure", quote.source, [*of_cells, "all"])
        names = of_cells if quote.source == "all" else [quote.source]
        if quote.what in ("runs", "minutes"):
            spent = spent_on(names, "paper", quote.preset, Records(self.results))
            return sum(each.runs if quote.what == "runs" else each.seconds / 60 for each in spent)
        claims = [claim for name in names for claim in self.claims_by_cell(name, quote.preset).values()]
        if quote.what == "claims":
            return len(claims)
        if quote.what in VERDICTS:
            return sum(claim.verdict == VERDICTS[quote.what] for claim in claims)
        sign = -1 if quote.what == "below" else 1
        return sum(
            sign * (round(claim.ours, claim.digits) - claim.paper) > 0
            for claim in claims
            if claim.ours is not None and claim.paper is not None
        )

    def stored(self, quote: Quote) -> float:
        (keys,) = quote.cells
        value: Any = self.file(quote.source)
        for key in keys.split("/"):
            try:
                value = value[int(key)] if isinstance(value, list) else value[key]
            except (KeyError, IndexError, ValueError, TypeError) as error:
                raise InputError(f"{quote.source} has no '{key}' there") from error
        if not isinstance(value, int | float):
            raise InputError(f"{quote.source} has no number there")
        return 100 * value if quote.what == PERCENT else value

    def claims(self, quote: Quote) -> list[Claim]:
        by_cell = self.claims_by_cell(quote.source, quote.preset)
        for cell in quote.cells:
            if cell not in by_cell:
                raise unknown_name("cell", cell, list(by_cell))
        return [by_cell[cell] for cell in quote.cells]

    def seeds(self, quote: Quote) -> list[float]:
        claims = self.claims(quote)
        if quote.precision is None:
            found = [value for claim in claims for value in claim.values]
        else:
            found = [
                100 * run["train_accuracy" if claim.cell.endswith(TRAIN) else "accuracy"]
                for claim in claims
                for run in self.precisions.get(claim.setting, {}).get(quote.precision, [])
            ]
        if not found:
            raise InputError("nothing is recorded of it")
        return found

    @functools.cached_property
    def precisions(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        return by_precision(Records(self.results))

    def read_claims(self, name: str, preset: str) -> dict[str, Claim]:
        if name not in ENTRIES:
            raise unknown_name("table or figure", name, list(ENTRIES))
        return {claim.cell: claim for claim in claims_of([name], "paper", preset, Records(self.results))}


def alike(value: float, written: str) -> str:
    """The value as another number is written: so many digits after the point, and a zero before it or none."""
    digits = max(len(number.partition(".")[2]) for number in SEPARATOR.split(written))
    text = f"{value:,.{digits}f}"
    return text.removeprefix("0") if written.startswith(".") else text
