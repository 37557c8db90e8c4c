"""A measurement of one's own: how many directions does the residual stream take?

If the variance were spread evenly over n directions, and none were elsewhere, this would be n at that place: the
participation ratio, (sum of variances)^2 / sum of their squares.

    icecore analyze results/weights/needle/7f9b576fbd0f --what examples/directions.py:directions --items 200
"""

import torch

from icecore.analysis.moments import moments_of
from icecore.models import Parameters, Transformer
from icecore.tasks import Batch


def directions(model: Transformer, parameters: Parameters, batch: Batch) -> dict[str, float]:
    """At the embedding, after each block and after the final norm, over every token that is read."""
    found = {}
    for place, moments in moments_of(model, parameters, batch).items():
        variances = torch.linalg.eigvalsh(moments.covariance)
        found[place] = float(variances.sum() ** 2 / variances.square().sum())
    return found
