"""Where the kernels run."""

import os

from torch import Tensor

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # Triton's own switch: kernels run anywhere, very slowly


def has_kernels(x: Tensor) -> bool:
    """Whether what is done with x is done by Triton's kernels: on a GPU or, in tests, by Triton's interpreter."""
    return x.device.type == "cuda" or INTERPRETED
