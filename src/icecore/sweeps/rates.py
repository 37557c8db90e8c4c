"""Choose each cell's learning rate on validation items: neither trained on nor test items."""

import dataclasses
import hashlib
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from icecore.errors import InputError, require
from icecore.store import read_json, write_json
from icecore.sweeps.cells import Cell
from icecore.sweeps.comparison import Seeds, precision_of
from icecore.sweeps.runner import Job, train_population
from icecore.training import ProgressCallback, evaluate, numbered

RATES = "rates"  # folder of the results, under `out`


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
) -> list[ChosenRate]:
    """Train every cell at every rate and choose the best; results under `folder` are not repeated."""
    found = []
    for cell in cells:
        measured = {
            rate: median_at(cell, rate, seeds, folder, device, precision, progress_of) for rate in dict.fromkeys(rates)
        }
        best = max(measured, key=lambda rate: (measured[rate], -rate))  # among equals, the lowest
        chosen = dataclasses.replace(cell, training=cell.training | {"lr": best})
        found.append(ChosenRate(chosen, best, measured))
    return found


def median_at(
    cell: Cell,
    rate: float,
    seeds: Seeds,
    folder: Path,
    device: str,
    precision: str,
    progress_of: Callable[[Job], ProgressCallback | None],
) -> float:
    """Return the median validation accuracy of a cell at a rate, stored or trained."""
    at_rate = dataclasses.replace(cell, training=cell.training | {"lr": rate})
    computed = precision_of(cell, device, precision)
    named = f"{at_rate.setting} {computed} {list(numbered(seeds))}"
    path = folder / RATES / f"{hashlib.sha256(named.encode()).hexdigest()[:12]}.json"
    if path.exists():
        accuracy = read_json(path).get("accuracy")
        is_right = isinstance(accuracy, list) and bool(accuracy) and all(isinstance(each, float) for each in accuracy)
        require(is_right, f"{path} is damaged: delete it, and the same command measures it again")
        return statistics.median(accuracy)
    job = Job(dataclasses.replace(at_rate, task=cell.task.without_validation()), numbered(seeds))
    try:
        run = train_population(job, None, device, computed, progress_of(job))
        items = cell.task.validation_set().to(run.population.device)
        measured = evaluate(run.population, cell.task, items)
        accuracy = measured["accuracy"]
    except InputError as error:
        if "not finite" not in str(error):
            raise
        accuracy = [0.0] * len(numbered(seeds))  # this rate diverges
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"cell": cell.label, "lr": rate, "seeds": list(numbered(seeds)), "accuracy": accuracy})
    return statistics.median(accuracy)
