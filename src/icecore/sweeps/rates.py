"""Choose each cell's learning rate on validation items: neither trained on nor test items."""

import dataclasses
import hashlib
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from icecore.errors import InputError, require
from icecore.seeding import make_generator
from icecore.store import read_json, write_json
from icecore.sweeps.cells import Cell
from icecore.sweeps.comparison import Seeds, precision_of
from icecore.sweeps.runner import Job, train_population
from icecore.tasks import Batch, Task
from icecore.tasks.loading import setting_fields
from icecore.training import ProgressCallback, evaluate, numbered

MOST_ITEMS = 2_000
SHARE = 10  # of a finite training set, one item in this many
RATES = "rates"  # folder of the results, under `out`


@dataclass(frozen=True)
class ChosenRate:
    """A cell with the chosen rate, and every rate's median validation accuracy."""

    cell: Cell
    lr: float
    accuracies: dict[float, float]


def without_validation(task: Task) -> tuple[Task, Batch]:
    """Return the task without its validation items, and these items.

    Unlimited training data then lack them, and all test items. A finite training set lacks a tenth. Where nothing is
    held out, as in memorization, they are its own items.
    """
    if task.test_split == "none":
        return task, task.test_set()
    train_set = task.train_set()
    if train_set is None:
        items = task.sample(min(MOST_ITEMS, len(task.test_set())), make_generator(0, "validation"))
        held = Batch.concatenate([task.test_set(), items])
        return changed(task, {"test_set": lambda _: held, "rejects_test_items": True}), items
    order = torch.randperm(len(train_set), generator=make_generator(0, "validation"))
    count = min(MOST_ITEMS, len(train_set) // SHARE)
    require(count > 0, f"{task.name} has {len(train_set)} training items, too few to hold some out: give one --lr")
    kept = train_set[order[count:].sort().values]
    return changed(task, {"train_set": lambda _: kept}), train_set[order[:count]]


def changed(task: Task, members: dict[str, Any]) -> Task:
    """Return the task with these members instead of its own; it is not saved."""
    kind = type(task)
    made = type(kind.__name__, (kind,), {"__module__": kind.__module__, **members})
    return made(**{field.name: getattr(task, field.name) for field in setting_fields(kind)})


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
    task, items = without_validation(cell.task)
    job = Job(dataclasses.replace(at_rate, task=task), numbered(seeds))
    try:
        run = train_population(job, None, device, computed, progress_of(job))
        measured = evaluate(run.population, cell.task, items.to(run.population.device))
        accuracy = measured["accuracy"]
    except InputError as error:
        if "not finite" not in str(error):
            raise
        accuracy = [0.0] * len(numbered(seeds))  # this rate diverges
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"cell": cell.label, "lr": rate, "seeds": list(numbered(seeds)), "accuracy": accuracy})
    return statistics.median(accuracy)
