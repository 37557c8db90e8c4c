"""Choose each cell's learning rate on validation items: neither trained on nor test items."""

import dataclasses
import hashlib
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from icecore.errors import InputError, require
from icecore.store import read_json, write_json
from icecore.store.rates import RATES, best_of, chosen_rates
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


def file_of(tried: Cell, seeds: Seeds, folder: Path, precision: str) -> Path:
    """Return where the result of a cell at a rate is stored."""
    named = f"{tried.setting} {precision} {list(numbered(seeds))}"
    return folder / RATES / f"{hashlib.sha256(named.encode()).hexdigest()[:12]}.json"


def untried_of(cells: Sequence[Cell], rates: Sequence[float], seeds: Seeds, folder: Path, precision: str) -> list[Job]:
    """Return a job per cell and rate without a stored result in this precision."""
    found = []
    for cell in cells:
        for rate in dict.fromkeys(rates):
            tried = at_rate(cell, rate)
            path = file_of(tried, seeds, folder, precision)
            if not path.exists():
                found.append(Job(tried, numbered(seeds)))
            elif cell.enough is not None and stored_median(path) >= cell.enough:
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
    path = file_of(tried, seeds, folder, computed)
    if path.exists():
        return stored_median(path)
    job = Job(dataclasses.replace(tried, task=cell.task.without_validation()), numbered(seeds))
    try:
        run = train_population(job, None, device, computed, progress_of(job), runs)
        items = cell.task.validation_set().to(run.population.device)
        measured = evaluate(run.population, cell.task, items)
        accuracy = measured["accuracy"]
    except InputError as error:
        if "not finite" not in str(error):
            raise
        accuracy = [0.0] * len(numbered(seeds))  # this rate diverges
    path.parent.mkdir(parents=True, exist_ok=True)
    made = {"cell": cell.label, "of": cell.setting, "lr": rate, "seeds": list(numbered(seeds)), "accuracy": accuracy}
    write_json(path, made)
    return statistics.median(accuracy)


def stored_median(path: Path) -> float:
    accuracy = read_json(path).get("accuracy")
    is_right = isinstance(accuracy, list) and bool(accuracy) and all(isinstance(each, float) for each in accuracy)
    require(is_right, f"{path} is damaged: delete it, and the same command measures it again")
    return statistics.median(accuracy)
