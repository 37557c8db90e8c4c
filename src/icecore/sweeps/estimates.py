"""How long runs will take, from stored benches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icecore.errors import InputError
from icecore.store import read_json
from icecore.sweeps.runner import Population
from icecore.tasks import make_task

# What a population takes beside its steps: to start, and for evaluations and checkpoints on the way. Ten seeds of
# needle, Random 1024, took 424 s on an H200 where steps alone are 389 s.
START_SECONDS, BESIDE_STEPS = 12.0, 1.06
BENCH_LAYERS = 2


@dataclass(frozen=True)
class Bench:
    """What `icecore bench --out` wrote."""

    device: str
    rows: Sequence[dict[str, Any]]

    def seconds(self, population: Population) -> float | None:
        """From the row of the same task, or else any, model and trained parts whose width is nearest by ratio.

        A wider model is taken to need more by the square of the width, a narrower one less in proportion; a deeper one
        more by its layers, of which the benches have two; another task more or less by the tokens of a batch.
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
        nearest = min(same, key=lambda row: abs(math.log(row["width"] / cell.model.width)))
        ratio = cell.model.width / nearest["width"]
        of_width = (ratio**2 if ratio > 1 else ratio) * getattr(cell.model, "layers", BENCH_LAYERS) / BENCH_LAYERS
        of_tokens = cell.config((0,), "fp32").optimization.batch / nearest["batch"]
        if nearest["task"] != cell.task.name:
            of_tokens *= cell.task.max_length / make_task(nearest["task"]).max_length
        steps = population.seed_steps * nearest["ms_per_seed_step"] / 1000 * of_width * of_tokens
        return START_SECONDS + BESIDE_STEPS * steps


def bench_of(results: Path, device: str) -> Bench | None:
    """What the stored benches of this device have, if there is one."""
    found: list[dict[str, Any]] = []
    for path in sorted((results / "bench").glob("*.json")):
        try:
            stored = read_json(path)
            rows = [row for row in stored["rows"] if "ms_per_seed_step" in row]
        except (InputError, KeyError, TypeError):
            continue
        if stored["device"] == device:
            found += rows
    return Bench(device, found) if found else None
