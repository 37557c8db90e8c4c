"""Availability of Triton kernels."""

import os

from torch import Tensor

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # Triton's own switch: kernels run anywhere, very slowly


def has_kernels(x: Tensor) -> bool:
    """Tell whether Triton kernels can run on x: on a GPU or, in tests, in Triton's interpreter."""
    return x.device.type == "cuda" or INTERPRETED
