"""Sweeps whose cells choose their rate, one after the other: from narrow to wide, until a width suffices."""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from icecore.store import Records
from icecore.sweeps.cells import Cell
from icecore.sweeps.comparison import Seeds
from icecore.sweeps.names import CellName
from icecore.sweeps.rates import at_chosen_rates, choose_rates, untried_of
from icecore.sweeps.runner import Failure, Job, held, missing, run_missing, run_of
from icecore.training import ProgressCallback, numbered

ONE_SEED = 1  # chooses a rate; all seeds then train at it


@dataclass(frozen=True)
class Sweep:
    """Settings by which cells are trained: seeds, device, precision and folder."""

    seeds: Seeds
    records: Records
    runs: Path
    device: str  # cpu or cuda
    precision: str
    at_once: int | None = None
    force: bool = False

    @property
    def folder(self) -> Path:
        return self.records.path.parent

    def untried(self, cell: Cell) -> list[Job]:
        """Return the jobs that its choice of a rate still needs, at most."""
        return untried_of([cell], cell.rates or (), ONE_SEED, self.folder, self.precision)

    def missing(self, cells: Sequence[Cell]) -> list[Job]:
        """Return the jobs not recorded yet, at the rates chosen so far."""
        return missing(
            self.chosen(cells),
            self.seeds,
            self.records,
            self.precision,
            self.device,
            self.at_once,
            self.runs,
            self.force,
        )

    def chosen(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return the cells, those that choose their rate at the one chosen so far."""
        rated = at_chosen_rates(cells, self.folder)
        return [cell if cell.rates is None else own for cell, own in zip(cells, rated, strict=True)]


def line_of(cell: Cell) -> CellName:
    """Return the name of a cell without its width."""
    name = cell.name
    return CellName(name.task, name.kind, None, name.layers, name.variant)


def needed(cells: Sequence[Cell], sweep: Sweep) -> list[Cell]:
    """Return the cells that are narrower than the narrowest of their line that suffices already, if one does."""
    with_end = [cell for cell in cells if cell.enough is not None]
    known = sweep.records.by_run() if with_end else {}
    enough: dict[CellName, int] = {}  # the narrowest width that suffices
    for cell, chosen in zip(with_end, sweep.chosen(with_end), strict=True):
        runs = [known.get(run_of(chosen, seed, sweep.precision)) for seed in numbered(sweep.seeds)]
        accuracies = [run["accuracy"] for run in runs if run is not None]
        assert cell.enough is not None
        if len(accuracies) == len(runs) and statistics.median(accuracies) >= cell.enough:
            line, width = line_of(cell), cell.model.width
            enough[line] = min(width, enough.get(line, width))
    return [cell for cell in cells if cell.model.width < enough.get(line_of(cell), math.inf)]


def train_narrow_first(
    cells: Sequence[Cell],
    sweep: Sweep,
    progress_of: Callable[[Job], ProgressCallback | None],
    on_done: Callable[[Job, list[float]], None],
) -> list[Failure]:
    """Choose each cell's rate and train it there. If time is short, the first cells have their numbers.

    Jobs that turn out not to be needed are done without an accuracy.
    """
    begun: list[str] = []

    def counted(job: Job) -> ProgressCallback | None:
        begun.append(job.label)
        return progress_of(job)

    failures = []
    for cell in cells:
        planned = [*sweep.untried(cell), *sweep.missing([cell])]
        begun.clear()
        # Another runner may hold the cell: it chooses the rate, and this one continues with the next cell.
        with held(sweep.folder, Job(cell, (0,)), "rate-locks") as is_ours:
            if is_ours and is_needed(cell, cells, sweep):
                if cell.rates:
                    choose_rates(
                        [cell], cell.rates, ONE_SEED, sweep.folder, sweep.device, sweep.precision, counted, sweep.runs
                    )
                jobs = sweep.missing([cell])
                failures += run_missing(
                    jobs, sweep.records, sweep.runs, sweep.device, sweep.precision, counted, on_done
                )
        left = Counter(job.label for job in planned) - Counter(begun)
        for job in planned:
            if left[job.label] > 0:
                left[job.label] -= 1
                on_done(job, [])
    return failures


def is_needed(cell: Cell, cells: Sequence[Cell], sweep: Sweep) -> bool:
    if cell.enough is None:
        return True
    line = line_of(cell)
    return cell in needed([other for other in cells if line_of(other) == line], sweep)
