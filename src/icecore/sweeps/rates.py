"""Choose each cell's learning rate on validation items: neither trained on nor test items."""

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from icecore.errors import InputError
from icecore.store.rates import TriedRate, add_rates, best_of, chosen_rates, tried_rates
from icecore.sweeps.cells import Cell
from icecore.sweeps.comparison import Seeds, precision_of
from icecore.sweeps.runner import Job, train_population
from icecore.training import ProgressCallback, evaluate, numbered


@dataclass(frozen=True)
class ChosenRate:
    """A cell with the chosen rate, and every rate's median validation accuracy."""

    cell: Cell
    lr: float
    accuracies: dict[float, float]


def choose_rates(
    cells: Sequence[Cell],
    rates: Sequence[float],
    seeds: Seeds,
    folder: Path,
    device: str = "auto",
    precision: str = "auto",
    progress_of: Callable[[Job], ProgressCallback | None] = lambda _: None,
    runs: Path | None = None,
) -> list[ChosenRate]:
    """Train every cell at every rate and choose the best; results under `folder` are not repeated.

    Runs that cells start from are under `runs`. A cell that has `enough` is trained at no further rate once one
    suffices.
    """
    found = []
    for cell in cells:
        measured: dict[float, float] = {}
        for rate in dict.fromkeys(rates):
            measured[rate] = median_at(cell, rate, seeds, folder, device, precision, progress_of, runs)
            if cell.enough is not None and measured[rate] >= cell.enough:
                break
        best = best_of(measured)
        found.append(ChosenRate(at_rate(cell, best), best, measured))
    return found


def at_rate(cell: Cell, rate: float | None) -> Cell:
    """Return the cell with another learning rate; None keeps its own."""
    return cell if rate is None else dataclasses.replace(cell, training=cell.training | {"lr": rate})


def at_chosen_rates(cells: Sequence[Cell], folder: Path) -> list[Cell]:
    """Return the cells at the rates that were chosen under `folder`; those without keep their own."""
    rates = chosen_rates(folder)
    return [at_rate(cell, rates.get(cell.setting)) for cell in cells]


def key_of(tried: Cell, seeds: Seeds, precision: str) -> str:
    """Return the key of a cell at a rate: the same rate with other steps or seeds is another one."""
    named = f"{tried.setting} {precision} {list(numbered(seeds))}"
    return hashlib.sha256(named.encode()).hexdigest()[:12]


def untried_of(cells: Sequence[Cell], rates: Sequence[float], seeds: Seeds, folder: Path, precision: str) -> list[Job]:
    """Return a job per cell and rate without a stored result in this precision."""
    known, found = tried_rates(folder), []
    for cell in cells:
        for rate in dict.fromkeys(rates):
            tried = at_rate(cell, rate)
            stored = known.get((key_of(tried, seeds, precision), cell.setting))
            if stored is None:
                found.append(Job(tried, numbered(seeds)))
            elif cell.enough is not None and stored.median >= cell.enough:
                break
    return found


def median_at(
    cell: Cell,
    rate: float,
    seeds: Seeds,
    folder: Path,
    device: str,
    precision: str,
    progress_of: Callable[[Job], ProgressCallback | None],
    runs: Path | None,
) -> float:
    """Return the median validation accuracy of a cell at a rate, stored or trained."""
    tried, computed = at_rate(cell, rate), precision_of(cell, device, precision)
    key = key_of(tried, seeds, computed)
    known = tried_rates(folder)
    if (key, cell.setting) not in known:
        # A cell that differs in its own rate alone has trained the same.
        same = next((each for each in known.values() if each.key == key), None)
        accuracy = same.accuracy if same else trained_at(tried, cell, seeds, device, computed, progress_of, runs)
        add_rates(folder, [TriedRate(key, cell.label, cell.setting, rate, list(numbered(seeds)), accuracy)])
        known = tried_rates(folder)  # another process may have been first
    return known[key, cell.setting].median


def trained_at(
    tried: Cell,
    cell: Cell,
    seeds: Seeds,
    device: str,
    precision: str,
    progress_of: Callable[[Job], ProgressCallback | None],
    runs: Path | None,
) -> list[float]:
    """Return each seed's validation accuracy after training at a rate; 0 if it diverges."""
    job = Job(dataclasses.replace(tried, task=cell.task.without_validation()), numbered(seeds))
    try:
        run = train_population(job, None, device, precision, progress_of(job), runs)
        items = cell.task.validation_set().to(run.population.device)
        return evaluate(run.population, cell.task, items)["accuracy"]
    except InputError as error:
        if "not finite" not in str(error):
            raise
        return [0.0] * len(numbered(seeds))
