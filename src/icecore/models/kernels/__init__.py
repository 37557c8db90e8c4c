"""Triton kernels of the fast paths. Imported on a GPU alone: other machines have no Triton."""

from icecore.models.kernels.attention import attend_backward, attend_forward
from icecore.models.kernels.cross_entropy import cross_entropy
from icecore.models.kernels.rows import add_rows, norm_backward, norm_forward, segment_sum

__all__ = [
    "add_rows",
    "attend_backward",
    "attend_forward",
    "cross_entropy",
    "norm_backward",
    "norm_forward",
    "segment_sum",
]
