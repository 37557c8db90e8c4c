"""Table 4 leaves one question open: are activations at the answer pooled as well?

The authors' scripts feed the answer after the question, though nothing is predicted there. This measures the share of
variance, in %, in the top 10 directions and neurons, with and without that position.

    icecore analyze results/weights/modular-addition/bd5f6d339302 --what examples/answered.py:answered
"""

import torch

from icecore.analysis.moments import explained, moments_of
from icecore.models import Parameters, Transformer
from icecore.tasks import Batch


def answered(model: Transformer, parameters: Parameters, batch: Batch) -> dict[str, float]:
    """Return shares per activation: `read` up to the last scored position, `answered` with the answer after it."""
    found = {}
    for reading, items in {"read": batch, "answered": with_answer(batch)}.items():
        for place, moments in moments_of(model, parameters, items).items():
            shares = explained(moments)
            found[f"{place}, directions, {reading}"] = 100 * shares.directions
            found[f"{place}, neurons, {reading}"] = 100 * shares.neurons
    return found


def with_answer(batch: Batch) -> Batch:
    """Return the batch with the last answer fed, at one more scored position."""
    row, last = torch.arange(len(batch), device=batch.tokens.device), batch.lengths - 1
    tokens, targets, scored = (
        torch.nn.functional.pad(part, (0, 1)) for part in (batch.tokens, batch.targets, batch.scored)
    )
    tokens[row, last + 1] = batch.targets[row, last]
    scored[row, last + 1] = True
    return Batch(tokens, targets, scored)
