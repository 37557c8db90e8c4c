"""Table 3: memorized bits of the trained and of the untrained model."""

import torch
import torch.nn.functional as F
from torch import Tensor

from icecore.analysis.capacity import capacity
from icecore.errors import InputError
from icecore.models import device_of
from icecore.reporting.inside.context import Analysis, AnalysisContext, AnalyzedRun, Result
from icecore.reporting.table import Table
from icecore.tasks import Memorization

ROWS = 4_096  # items per forward pass


@torch.no_grad()
def measure(context: AnalysisContext) -> Result:
    run = context.run
    task = run.config.task
    if not isinstance(task, Memorization):
        raise InputError(f"capacity needs a run of memorization, got one of {task.name}")
    batch = task.test_set()
    total = run.trained_parameters + run.frozen_parameters

    def of(parameters: dict[str, Tensor]) -> dict[str, float]:
        right, loss = [], []
        for begin in range(0, len(batch), ROWS):
            rows = batch[begin : begin + ROWS].to(device_of(parameters))
            logits = run.model.logits(parameters, rows.tokens)[rows.scored]
            answers = rows.targets[rows.scored]
            right.append((logits.argmax(dim=1) == answers).float())
            loss.append(F.cross_entropy(logits, answers, reduction="none"))
        return capacity(torch.cat(right), torch.cat(loss), task.keys, run.trained_parameters, total).as_json()

    return {name: of(parameters) for name, parameters in run.both.items()}


def tables(result: Result) -> list[Table]:
    both = ("trained", "untrained")
    rows = [(name.replace("_", " "), *(f"{result[which][name]:,.2f}" for which in both)) for name in result["trained"]]
    return [Table("Memorized bits", ("", *both), rows, left=("",))]


def fits(run: AnalyzedRun) -> bool:
    return isinstance(run.config.task, Memorization)


ABOUT = "How many bits of the table the model has memorized, per parameter, counted in several ways."
CAPACITY = Analysis("capacity", ABOUT, measure, tables, fits=fits)
