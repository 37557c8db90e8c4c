"""Triton kernels of the engines. Import only on a GPU: other machines have no Triton."""

from icecore.models.engines.kernels.attention import attend_backward, attend_forward
from icecore.models.engines.kernels.cross_entropy import cross_entropy
from icecore.models.engines.kernels.rows import add_rows, norm_backward, norm_forward, segment_sum
from icecore.models.engines.kernels.scan import convolve, scan_backward, scan_forward

__all__ = [
    "add_rows",
    "attend_backward",
    "attend_forward",
    "convolve",
    "cross_entropy",
    "norm_backward",
    "norm_forward",
    "scan_backward",
    "scan_forward",
    "segment_sum",
]
