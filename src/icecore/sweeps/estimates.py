"""Estimates of run times, from stored benchmarks."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icecore.errors import InputError
from icecore.store import read_json
from icecore.sweeps.cells import Cell
from icecore.sweeps.runner import Job
from icecore.tasks import make_task

# Overhead of a population beside its steps: start, evaluations and checkpoints. Ten seeds of needle, Random 1024, took
# 424 s on an H200; the steps alone are 389 s.
START_SECONDS, BESIDE_STEPS = 12.0, 1.06
BENCH_LAYERS = 2

Row = dict[str, Any]
READ = {"model", "task", "width", "trainable", "ms_per_seed_step"}


@dataclass(frozen=True)
class Bench:
    """One device's rows, written by `icecore bench --out`."""

    device: str
    rows: Sequence[Row]

    def seconds(self, population: Job) -> float | None:
        """Estimate a job's seconds from rows of the same model and trained parts: those of its task, else all.

        Between two widths, time is a power of the width. Beyond the widest it grows with the square; below the
        narrowest it shrinks in proportion. It also grows with the layers, of which benchmarks have two, and for another
        task with the tokens per batch.
        """
        cell = population.cell
        same = [
            row
            for row in self.rows
            if row["model"] == cell.model.name and (row["trainable"] == "all") == (cell.trainable == "all")
        ]
        same = [row for row in same if row["task"] == cell.task.name] or same
        if not same:
            return None
        width = cell.model.width
        narrower = max((row for row in same if row["width"] <= width), key=lambda row: row["width"], default=None)
        wider = min((row for row in same if row["width"] >= width), key=lambda row: row["width"], default=None)
        steps = ms_at(width, narrower, wider, cell) * population.seed_steps / 1000
        return START_SECONDS + BESIDE_STEPS * steps * getattr(cell.model, "layers", BENCH_LAYERS) / BENCH_LAYERS


def ms_at(width: int, narrower: Row | None, wider: Row | None, cell: Cell) -> float:
    """Return ms per step of one seed with two layers."""
    if narrower is None or wider is None:
        row = narrower or wider
        assert row is not None
        return ms_of(row, cell) * (width / row["width"]) ** (2 if narrower else 1)
    if narrower["width"] == wider["width"]:
        return ms_of(narrower, cell)
    way = math.log(width / narrower["width"]) / math.log(wider["width"] / narrower["width"])
    return ms_of(narrower, cell) ** (1 - way) * ms_of(wider, cell) ** way


def ms_of(row: Row, cell: Cell) -> float:
    """Scale the row's ms to the cell's batch and task."""
    of_tokens = cell.of_one_seed.training.batch / row["batch"]
    if row["task"] != cell.task.name:
        of_tokens *= cell.task.max_length / make_task(row["task"]).max_length
    return row["ms_per_seed_step"] * of_tokens


def bench_of(results: Path, device: str) -> Bench | None:
    """Return the stored benchmarks of this device, if any."""
    found = rows_by_device(results).get(device)
    return Bench(device, found) if found else None


def benched_devices(results: Path) -> list[str]:
    return list(rows_by_device(results))


def rows_by_device(results: Path) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for path in sorted((results / "bench").glob("*.json")):
        try:
            stored = read_json(path)
            rows = [row for row in stored["rows"] if row.keys() >= READ]
            if rows:
                found[stored["device"]] += rows
        except (InputError, KeyError, TypeError):
            continue
    return found
