"""Accuracy and loss of one network on a batch, with a hook for each part of it if wanted."""

from collections.abc import Callable, Iterator, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from icecore.analysis.moments import ROWS_AT_ONCE, SCORES_AT_ONCE, scores_of_row
from icecore.models import Model, Parameters, device_of, hidden_with
from icecore.models.base import Hook
from icecore.tasks import Batch, Task

HookOf = Callable[[Batch], Hook]  # the hook for a part of the batch
Edit = Callable[[Tensor], Tensor]


@torch.no_grad()
def accuracy_and_loss(
    model: Model, parameters: Parameters, task: Task, batch: Batch, hook_of: HookOf | None = None
) -> tuple[float, float]:
    """Return the accuracy and the mean loss over scored positions; logits are computed only there."""
    batch = batch.to(device_of(parameters))
    predictions, total = torch.zeros_like(batch.tokens), 0.0
    for begin, part in chunks_of(model, batch):
        if hook_of is None:
            hidden = model.hidden(parameters, part.tokens)
        else:
            hidden = hidden_with(model, parameters, part.tokens, hook_of(part))
        logits = model.unembed(parameters, hidden[part.scored])
        predictions[begin : begin + len(part)][part.scored] = logits.argmax(dim=-1)
        total += float(losses(logits, part).sum())
    accuracy = float(task.accuracies(predictions[None], batch)["accuracy"][0])
    return accuracy, total / int(batch.scored.sum())


def losses(logits: Tensor, batch: Batch) -> Tensor:
    """Return the cross-entropy, or the KL divergence from a target distribution, of each scored position."""
    if batch.target_log_probs is None:
        return F.cross_entropy(logits, batch.targets[batch.scored], reduction="none")
    goal = batch.target_log_probs
    return (goal.exp() * (goal - logits.log_softmax(dim=-1))).sum(dim=-1)


def chunks_of(model: Model, batch: Batch) -> Iterator[tuple[int, Batch]]:
    """Yield the parts of a batch, each with its first row; long sequences have many attention scores."""
    at_once = max(1, min(ROWS_AT_ONCE, SCORES_AT_ONCE // scores_of_row(model, batch)))
    for begin in range(0, len(batch), at_once):
        yield begin, batch[begin : begin + at_once]


def editing(edits: Mapping[str, Edit]) -> HookOf:
    """Return hooks that edit the named activations."""

    def hook(name: str, value: Tensor) -> Tensor:
        return edits[name](value) if name in edits else value

    return lambda _part: hook
