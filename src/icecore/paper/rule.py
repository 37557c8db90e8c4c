"""A sentence of the paper's text as a range of one measured number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from icecore.reporting.claim import Claim, Source, median_of, values_of, verdict_of
from icecore.reporting.verdict import Null, combined


@dataclass(frozen=True)
class Rule:
    """A sentence of the text as a range of one measured number, with its reason and its null."""

    label: str
    measure: str  # the measured number, in words
    least: float
    most: float
    reason: str
    null: Null | None = None
    paper: float | None = None
    digits: int = 1
    command: str = ""  # makes the missing runs

    @property
    def tolerance(self) -> str:
        if self.paper is not None:
            return f"{self.most - self.paper:g}"
        if math.isinf(self.most):
            return f"at least {self.least:.4g}"
        return f"at most {self.most:.4g}" if math.isinf(self.least) else f"{self.least:g} to {self.most:g}"

    def claim(self, ours: float | None, seeds: int, **measured: object) -> Claim:
        verdict = verdict_of(ours, ours is not None and self.least <= ours <= self.most)
        makes = f"made by: {self.command}" if ours is None and self.command else ""
        note = "; ".join(filter(None, (self.measure, makes)))
        made = Claim("text", self.label, self.paper, ours, (), None, self.tolerance, self.reason, verdict)
        more = {"digits": self.digits, "null": self.null, "seeds": seeds, "note": note}
        return replace(made, allowed=(self.least, self.most), **more, **measured)

    def of_seeds(self, sources: Sequence[Source], is_worst: bool = False) -> Claim:
        values = values_of(sources)
        ours = min(values, default=None) if is_worst else median_of(values)
        return self.claim(ours, len(values), values=values, sources=tuple(sources), is_worst=is_worst)

    def of_cells(self, how: str, sources: Sequence[Source]) -> Claim:
        """Combine the medians of several cells."""
        cells = [source.values for source in sources]
        seeds = min(map(len, cells), default=0)
        ours = combined(how, cells) if cells else None
        return self.claim(ours, seeds, compared=how, sources=tuple(sources))
