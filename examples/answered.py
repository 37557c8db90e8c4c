"""A reading of Table 4 that its text leaves open: are activations at the answer pooled as well?

The authors' scripts feed a question with its answer behind it, though nothing is asked there. These are the shares of
variance, in %, within the top 10 directions and neurons, with and without that position.

    icecore analyze results/weights/modular-addition/bd5f6d339302 --what examples/answered.py:answered
"""

import torch

from icecore.analysis.moments import explained, moments_of
from icecore.models import Parameters, Transformer
from icecore.tasks import Batch


def answered(model: Transformer, parameters: Parameters, batch: Batch) -> dict[str, float]:
    """At each place: `read` is up to the last scored position, `answered` has the answer after it too."""
    found = {}
    for reading, items in {"read": batch, "answered": with_answer(batch)}.items():
        for place, moments in moments_of(model, parameters, items).items():
            shares = explained(moments)
            found[f"{place}, directions, {reading}"] = 100 * shares.directions
            found[f"{place}, neurons, {reading}"] = 100 * shares.neurons
    return found


def with_answer(batch: Batch) -> Batch:
    """The same with the last answer fed, as the position that is read last."""
    row, last = torch.arange(len(batch), device=batch.tokens.device), batch.lengths - 1
    tokens, targets, scored = (
        torch.nn.functional.pad(part, (0, 1)) for part in (batch.tokens, batch.targets, batch.scored)
    )
    tokens[row, last + 1] = batch.targets[row, last]
    scored[row, last + 1] = True
    return Batch(tokens, targets, scored)
