"""Records at a scale and with a preset, read once."""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from icecore.paper.cells import PaperCell, Variation
from icecore.paper.scales import SCALES, Scale
from icecore.reporting.claim import Precisions, by_precision, of_most_seeds, precision_of
from icecore.store.rates import chosen_rates
from icecore.store.records import INSIDE, TRACKS, Record, Records
from icecore.sweeps.names import CellName


@dataclass(frozen=True)
class Evidence:
    """Records that claims are based on."""

    records: Records
    scale: str = "paper"
    preset: str = "released"
    variations: tuple[Callable[[Scale, str], list[Variation]], ...] = ()  # may explain differences

    @functools.cached_property
    def by_setting(self) -> dict[str, Precisions]:
        return by_precision(self.records)

    @functools.cached_property
    def inside_by_setting(self) -> dict[str, Precisions]:
        return by_precision(self.records.beside(INSIDE))

    @functools.cached_property
    def rates(self) -> dict[str, float]:
        """Return the rates that were chosen on validation items, by setting."""
        return chosen_rates(self.records.path.parent)

    def precisions(self, cell: PaperCell) -> Precisions:
        """Return a cell's records by precision."""
        return self.by_setting.get(cell.setting, {})

    def runs(self, cell: PaperCell) -> list[Record]:
        """Return a cell's records, one per seed, in the precision with the most seeds."""
        return of_most_seeds(self.precisions(cell))

    def draws(self, cell: PaperCell) -> list[tuple[PaperCell, list[Record]]]:
        """Return a cell with its records, then the same with other draws of the training data, in its precision."""
        own = self.runs(cell)
        precision, redraws = precision_of(own), self.redraws.get(cell.name, []) if own else []
        others = [(redraw, self.precisions(redraw).get(precision, [])) for redraw in redraws]
        return [(cell, own), *((redraw, runs) for redraw, runs in others if runs)]

    def inside(self, cell: PaperCell) -> list[Record]:
        """Return the records of activations in a cell's runs."""
        return of_most_seeds(self.inside_by_setting.get(cell.setting, {}))

    @functools.cached_property
    def tracks_by_setting(self) -> dict[str, Precisions]:
        return by_precision(self.records.beside(TRACKS))

    def tracks(self, cell: PaperCell) -> list[Record]:
        """Return the tracks of a cell's runs, one per seed."""
        return of_most_seeds(self.tracks_by_setting.get(cell.setting, {}))

    @functools.cached_property
    def redraws(self) -> dict[CellName, list[PaperCell]]:
        """Return cells with other draws of the training data, by the name of their base."""
        found: dict[CellName, list[PaperCell]] = defaultdict(list)
        for variation in (one for vary in self.variations for one in vary(SCALES[self.scale], self.preset)):
            if variation.is_redraw:
                found[variation.base].append(variation.cell)
        return found

    @functools.cached_property
    def all_runs(self) -> list[Record]:
        """Return the records of every setting, each in the precision with the most seeds."""
        return all_of(self.by_setting)

    @functools.cached_property
    def all_inside(self) -> list[Record]:
        return all_of(self.inside_by_setting)


def all_of(by_setting: dict[str, Precisions]) -> list[Record]:
    return [run for _, each in sorted(by_setting.items()) for run in of_most_seeds(each)]


@dataclass(frozen=True)
class Spent:
    """Device time of some runs; a population's time is divided among its seeds.

    Populations that shared a device each count in full, so this is an upper bound.
    """

    device: str
    runs: int
    seconds: float


def spent(runs: Iterable[Record]) -> list[Spent]:
    """Return the time per device; a run counts once."""
    once = {run["run"]: run for run in runs if "seconds" in run}
    seconds: dict[str, list[float]] = defaultdict(list)
    for run in once.values():
        seconds[run["device"]].append(run["seconds"] / run.get("seeds_at_once", 1))
    return [Spent(device, len(each), sum(each)) for device, each in sorted(seconds.items())]
