"""The smallest sufficient width: from accuracies by width and seed, with what was not reached and what was not run."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

State = Literal["reached", "not reached", "not finished", "not run"]


@dataclass(frozen=True)
class Threshold:
    """The smallest of some widths at which the median accuracy of the seeds reaches a target, in %."""

    accuracies: Mapping[int, Mapping[int, float]]  # by width and seed, in %; widths that were run
    widths: tuple[int, ...]  # of the whole grid, ascending
    target: float

    @property
    def run_widths(self) -> list[int]:
        return [width for width in self.widths if self.accuracies.get(width)]

    @property
    def width(self) -> int | None:
        """Return the smallest width that was run and suffices."""
        return next((width for width in self.run_widths if self.median(width) >= self.target), None)

    @property
    def state(self) -> State:
        if self.width is not None:
            return "reached"
        if not self.run_widths:
            return "not run"
        return "not reached" if self.run_widths[-1] == self.widths[-1] else "not finished"

    @property
    def not_run(self) -> list[int]:
        """Return the widths that the answer lacks: narrower ones than the one that suffices, or any."""
        return [
            width
            for width in self.widths
            if width not in self.run_widths and (self.width is None or width < self.width)
        ]

    @property
    def number(self) -> int | None:
        """Return the width to count with: twice the widest if none suffices; None if runs are missing."""
        if self.not_run or not self.run_widths:
            return None
        return 2 * self.widths[-1] if self.width is None else self.width

    @property
    def seeds(self) -> int:
        """Return the number of seeds, the fewest of any width."""
        return min((len(each) for each in self.accuracies.values() if each), default=0)

    @property
    def by_seed(self) -> dict[int, int | None]:
        """Return each seed's own smallest sufficient width, None if none that was run suffices."""
        seeds = dict.fromkeys(seed for width in self.run_widths for seed in self.accuracies[width])
        return {
            seed: next(
                (width for width in self.run_widths if self.accuracies[width].get(seed, -1.0) >= self.target), None
            )
            for seed in seeds
        }

    @property
    def best(self) -> tuple[float, int]:
        """Return the best median and its width; of equals the narrowest."""
        width = max(self.run_widths, key=lambda width: (self.median(width), -width))
        return self.median(width), width

    def median(self, width: int) -> float:
        return statistics.median(self.accuracies[width].values())

    def __str__(self) -> str:
        """Return the width and the seeds' range, such as "64 (32 to 128)", or how far the runs came."""
        if self.state == "not run":
            return "not run"
        if self.width is None:
            best, at = self.best
            missing = f", {' '.join(map(str, self.not_run))} not run" if self.not_run else ""
            return f"> {self.run_widths[-1]} (best {best:.1f} at {at}{missing})"
        words = [self.range] if self.range else []
        if self.not_run:
            words.append(f"{' '.join(map(str, self.not_run))} not run")
        return f"{self.width} ({', '.join(words)})" if words else str(self.width)

    @property
    def range(self) -> str:
        """Return the range over seeds, "32 to 128" or "32 to > 64"; empty if all seeds agree."""
        own = list(self.by_seed.values())
        known = [width for width in own if width is not None]
        if len(set(own)) <= 1 or not known:
            return ""
        return f"{min(known)} to {max(known)}" if None not in own else f"{min(known)} to > {self.run_widths[-1]}"
