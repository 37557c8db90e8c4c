"""Fields of records beside accuracy: bits of memorization, text of language modeling, coordinates of the ladder."""

from collections.abc import Iterator
from typing import Any

from icecore.analysis.capacity import capacity
from icecore.store import Record
from icecore.tasks import Language, Memorization, Task
from icecore.tasks.lazy import strongest_lazy_rule
from icecore.tasks.sensitivity import measure_sensitivity
from icecore.training import RunFolder, TrainedRun, scored_losses
from icecore.training.population import predict

# Points of Figure 8: one per 2,000 of the paper's 168,000 steps, or per 250 epochs. Each evaluates all 262,144 items,
# which takes as long as about 100 steps.
POINTS = 84


EVALUATIONS = 20  # evaluations of a language model's validation loss, to find the best


def evaluate_every(task: Task, steps: int) -> int | None:
    """Return the evaluation interval that a task's record needs; None leaves it to the loop."""
    points = POINTS if isinstance(task, Memorization) else EVALUATIONS if isinstance(task, Language) else None
    return None if points is None else max(1, steps // points)


def with_memory(runs: TrainedRun, records: list[Record]) -> list[Record]:
    """Add curve and bits to records of memorization."""
    if not isinstance(runs.config.task, Memorization):
        return records
    more = zip(records, curves_of(runs), capacities_of(runs, runs.config.task), strict=True)
    return [{**record, "curve": curve, "capacity": bits} for record, curve, bits in more]


def curves_of(runs: TrainedRun) -> list[dict[str, list[Any]]]:
    """Return per seed the steps at which accuracy was measured, and the accuracies, including the final one."""
    assert runs.path is not None
    end = runs.config.training.steps
    rows = [row for row in RunFolder(runs.path).metrics() if "accuracy" in row and row["step"] < end]
    rows.append({"step": end, "accuracy": runs.accuracy})
    steps = [row["step"] for row in rows]
    return [
        {"steps": steps, "accuracy": [row["accuracy"][index] for row in rows]} for index in range(len(runs.accuracy))
    ]


def capacities_of(runs: TrainedRun, task: Memorization) -> Iterator[dict[str, float]]:
    """Yield each seed's bits, in the precision of its training."""
    batch = task.test_set().to(runs.population.device)
    trained, frozen = runs.config.parameter_counts
    predictions, _ = predict(runs.population, batch)
    is_right = (predictions == batch.targets)[:, batch.scored].float()
    for right, losses in zip(is_right, scored_losses(runs.population, batch), strict=True):
        yield capacity(right, losses, task.keys, trained, trained + frozen).as_json()


def with_text(runs: TrainedRun, records: list[Record]) -> list[Record]:
    """Add tokens and epochs of the text to records of language modeling."""
    task, training = runs.config.task, runs.config.training
    if not isinstance(task, Language):
        return records
    tokens = {split: len(task.tokens_of(split)) for split in ("train", "validation")}
    epochs = round(training.steps * training.batch * task.window / tokens["train"], 2)
    return [{**record, "text": {"tokens": tokens, "epochs": epochs}} for record in records]


def with_coordinates(runs: TrainedRun, records: list[Record]) -> list[Record]:
    """Add where theory places the task, its measured sensitivity and the strongest lazy rule, if theory places it."""
    task = runs.config.task
    coordinates = task.coordinates()
    if coordinates is None:
        return records
    found: dict[str, Any] = coordinates._asdict()
    if type(task).solve is not Task.solve:
        measured = measure_sensitivity(task)
        found |= {"sensitivity": measured.mean, "most_sensitive": measured.most}
    rule = strongest_lazy_rule(task)
    lazy = {} if rule is None else {"lazy_rule": {rule.name: rule.accuracy}}
    return [{**record, "coordinates": found, **lazy} for record in records]
