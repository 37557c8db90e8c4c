"""What is recorded of memorization beside its end: the accuracy on the way, and how many bits it knows."""

from collections.abc import Iterator
from typing import Any

from icecore.analysis.capacity import capacity
from icecore.store import Record
from icecore.tasks import Memorization, Task
from icecore.training import RunFolder, Runs, scored_losses
from icecore.training.population import predict

# Points of Figure 8: at the paper's 168,000 steps one every 2,000, which is 250 epochs. Each is an evaluation of all
# 262,144 items, about as long as 100 steps.
POINTS = 84


def evaluate_every(task: Task, steps: int) -> int | None:
    """So often the accuracy is measured and kept; None: as often as the loop sees fit, and not kept."""
    return max(1, steps // POINTS) if isinstance(task, Memorization) else None


def with_memory(runs: Runs, records: list[Record]) -> list[Record]:
    """The records; those of memorization with its curve and its bits."""
    if not isinstance(runs.config.task, Memorization):
        return records
    more = zip(records, curves_of(runs), capacities_of(runs, runs.config.task), strict=True)
    return [{**record, "curve": curve, "capacity": bits} for record, curve, bits in more]


def curves_of(runs: Runs) -> list[dict[str, list[Any]]]:
    """Of each seed, the steps at which accuracy was measured, and the accuracies; the end is the last."""
    assert runs.path is not None
    end = runs.config.optimization.steps
    rows = [row for row in RunFolder(runs.path).metrics() if "accuracy" in row and row["step"] < end]
    rows.append({"step": end, "accuracy": runs.accuracy})
    steps = [row["step"] for row in rows]
    return [
        {"steps": steps, "accuracy": [row["accuracy"][index] for row in rows]} for index in range(len(runs.accuracy))
    ]


def capacities_of(runs: Runs, task: Memorization) -> Iterator[dict[str, float]]:
    """Of each seed, in the precision that it was trained in."""
    batch = task.test_set().to(runs.population.device)
    trained, frozen = runs.config.parameter_counts
    predictions, _ = predict(runs.population, batch)
    is_right = (predictions == batch.targets)[:, batch.scored].float()
    for right, losses in zip(is_right, scored_losses(runs.population, batch), strict=True):
        yield capacity(right, losses, task.keys, trained, trained + frozen).as_json()
