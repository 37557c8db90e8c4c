"""A comparison of one's own: on one task, bodies of some widths, and what of them trains."""

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
Seeds = int | Sequence[int]  # how many, from 0 on, or which


def comparison(
    task: Task,
    bodies: Mapping[str, Sequence[Model]],
    trainables: Sequence[str] = USUAL,
    preset: str = "released",
    training: Mapping[str, Any] | None = None,
) -> list[Cell]:
    """A cell for every body, width and choice of what trains. `bodies` has each body at its widths, by its name."""
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
    """What a line in the figure, and a row in the table, is called."""
    what = NAMES.get(trainable, trainable)
    return what if body == OURS else f"{what}, {body}"


def precision_of(cell: Cell, device: str, precision: str) -> str:
    """Bodies of one's own compute in float32."""
    return pick_precision(precision, pick_device(device), cell.model)


def missing_of(
    cells: Sequence[Cell], seeds: Seeds, records: Records, device: str = "auto", precision: str = "auto"
) -> dict[str, list[Job]]:
    """What is not recorded yet, by the precision that it trains in."""
    kind = pick_device(device).type
    by_precision: dict[str, list[Cell]] = {}
    for cell in cells:
        by_precision.setdefault(precision_of(cell, device, precision), []).append(cell)
    folder = records.path.parent  # runs lie beside their records
    return {chosen: missing(each, seeds, records, chosen, kind, runs=folder) for chosen, each in by_precision.items()}


def recorded(
    cells: Sequence[Cell], seeds: Seeds, records: Records, device: str = "auto", precision: str = "auto"
) -> list[tuple[Cell, list[Record]]]:
    """The records of each cell, of just these seeds in just this precision."""
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
    watch_of: Callable[[Job], ProgressCallback | None] = lambda _: None,
    on_done: Callable[[Job, list[float]], None] = lambda *_: None,
) -> list[Failure]:
    """Train and record under `folder` what is missing there; what fails is returned, and the rest goes on."""
    records = Records(folder)
    return [
        failure
        for chosen, populations in missing_of(cells, seeds, records, device, precision).items()
        for failure in run_missing(populations, records, folder, device, chosen, watch_of, on_done)
    ]


def train_in_memory(
    cells: Sequence[Cell],
    seeds: Seeds,
    device: str = "auto",
    precision: str = "auto",
    watch_of: Callable[[Job], ProgressCallback | None] = lambda _: None,
) -> list[tuple[Cell, list[Record]]]:
    """Train every cell and save nothing; return each cell's records."""
    found = []
    for cell in cells:
        job = Job(cell, numbered(seeds))
        chosen = precision_of(cell, device, precision)
        found.append((cell, list(records_of(train_population(job, None, device, chosen, watch_of(job))))))
    return found
