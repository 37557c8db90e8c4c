"""How long runs will take, from stored benches."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icecore.errors import InputError
from icecore.store import read_json
from icecore.sweeps.runner import Population

# What a population takes beside its steps: to start, and for evaluations and checkpoints on the way. Ten seeds of
# needle, Random 1024, took 424 s on an H200 where steps alone are 389 s.
START_SECONDS, BESIDE_STEPS = 12.0, 1.06


@dataclass(frozen=True)
class Bench:
    """What `icecore bench --out` wrote."""

    device: str
    rows: Sequence[dict[str, Any]]

    def seconds(self, population: Population) -> float | None:
        """From the row of the same task, model and trained parts whose width is nearest, scaled by the parameters."""
        cell = population.cell
        same = [
            row
            for row in self.rows
            if (row["task"], row["model"]) == (cell.task.name, cell.model.name)
            and (row["trainable"] == "all") == (cell.trainable == "all")
        ] or [row for row in self.rows if row["model"] == cell.model.name]
        if not same:
            return None
        nearest = min(same, key=lambda row: abs(row["width"] - cell.model.width))
        wider = max(1.0, (cell.model.width / nearest["width"]) ** 2)
        batch = cell.config((0,), "fp32").optimization.batch / nearest["batch"]
        return START_SECONDS + BESIDE_STEPS * population.seed_steps * nearest["ms_per_seed_step"] / 1000 * wider * batch


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
