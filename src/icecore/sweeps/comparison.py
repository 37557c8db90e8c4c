"""A user's comparison: bodies, widths and trainable sets on one task."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from icecore.models import Model
from icecore.store import Record, Records
from icecore.sweeps.cells import Cell
from icecore.sweeps.names import PARTS, TRAINED, CellName
from icecore.sweeps.runner import Failure, Job, missing, records_of, run_missing, run_of, train_population
from icecore.tasks import Task
from icecore.training import ProgressCallback, numbered, pick_device, pick_precision

NAMES = {trainable: name for name, trainable in (TRAINED | PARTS).items()}
USUAL = ("unembed", "embeddings", "all")
OURS = "transformer"
Seeds = int | Sequence[int]  # a count (0, 1, ...), or the seeds themselves


def comparison(
    task: Task,
    bodies: Mapping[str, Sequence[Model]],
    trainables: Sequence[str] = USUAL,
    preset: str = "released",
    training: Mapping[str, Any] | None = None,
) -> list[Cell]:
    """Return a cell per body, width and trainable set. `bodies` maps a body's name to models, one per width."""
    return [
        Cell(
            CellName(task.name, line_name(name, trainable), body.width),
            task,
            body,
            trainable,
            preset,
            {**(training or {})},
        )
        for name, each in bodies.items()
        for trainable in trainables
        for body in each
    ]


def line_name(body: str, trainable: str) -> str:
    """Return the name of a line in the figure, which is also a row in the table."""
    what = NAMES.get(trainable, trainable)
    return what if body == OURS else f"{what}, {body}"


def precision_of(cell: Cell, device: str, precision: str) -> str:
    """Return the precision to train in; user-defined models use float32."""
    return pick_precision(precision, pick_device(device), cell.model)


def missing_of(
    cells: Sequence[Cell],
    seeds: Seeds,
    records: Records,
    device: str = "auto",
    precision: str = "auto",
    force: bool = False,
) -> dict[str, list[Job]]:
    """Return the jobs not recorded yet, by precision."""
    kind = pick_device(device).type
    by_precision: dict[str, list[Cell]] = {}
    for cell in cells:
        by_precision.setdefault(precision_of(cell, device, precision), []).append(cell)
    folder = records.path.parent  # runs are stored beside their records
    return {
        chosen: missing(each, seeds, records, chosen, kind, runs=folder, force=force)
        for chosen, each in by_precision.items()
    }


def recorded(
    cells: Sequence[Cell], seeds: Seeds, records: Records, device: str = "auto", precision: str = "auto"
) -> list[tuple[Cell, list[Record]]]:
    """Return each cell's records of exactly these seeds and this precision."""
    known = records.by_run()
    found = []
    for cell in cells:
        runs = [run_of(cell, seed, precision_of(cell, device, precision)) for seed in numbered(seeds)]
        found.append((cell, [known[run] for run in runs if run in known]))
    return found


def train_missing(
    cells: Sequence[Cell],
    seeds: Seeds,
    folder: Path,
    device: str = "auto",
    precision: str = "auto",
    progress_of: Callable[[Job], ProgressCallback | None] = lambda _: None,
    on_done: Callable[[Job, list[float]], None] = lambda *_: None,
    force: bool = False,
) -> list[Failure]:
    """Train what is missing and record it under `folder`; return the failures, which do not stop the others."""
    records = Records(folder)
    return [
        failure
        for chosen, populations in missing_of(cells, seeds, records, device, precision, force).items()
        for failure in run_missing(populations, records, folder, device, chosen, progress_of, on_done)
    ]


def train_in_memory(
    cells: Sequence[Cell],
    seeds: Seeds,
    device: str = "auto",
    precision: str = "auto",
    progress_of: Callable[[Job], ProgressCallback | None] = lambda _: None,
    force: bool = False,
) -> list[tuple[Cell, list[Record]]]:
    """Train every cell and save nothing; return each cell's records."""
    found = []
    for cell in cells:
        job = Job(cell, numbered(seeds), force)
        chosen = precision_of(cell, device, precision)
        found.append((cell, list(records_of(train_population(job, None, device, chosen, progress_of(job))))))
    return found
