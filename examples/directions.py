"""A measurement of your own: how many directions does the residual stream use?

The participation ratio, (sum of variances)^2 / sum of their squares, is n if the variance is spread evenly over n
directions.

    icecore analyze results/weights/needle/7f9b576fbd0f --what examples/directions.py:directions --items 200
"""

import torch

from icecore.analysis.moments import moments_of
from icecore.models import Parameters, Transformer
from icecore.tasks import Batch


def directions(model: Transformer, parameters: Parameters, batch: Batch) -> dict[str, float]:
    """Return the ratio at the embedding, after each block and after the final norm, over all tokens read."""
    found = {}
    for place, moments in moments_of(model, parameters, batch).items():
        variances = torch.linalg.eigvalsh(moments.covariance)
        found[place] = float(variances.sum() ** 2 / variances.square().sum())
    return found
