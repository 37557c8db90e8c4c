"""Precision of the body. Trained parameters, optimizer and loss are always float32."""

import contextlib
from collections.abc import Iterator
from enum import StrEnum

import torch

from icecore.errors import require, unknown_name
from icecore.models import Model


class Precision(StrEnum):
    """Precision of the body's weights and activations."""

    fp32 = "fp32"
    tf32 = "tf32"  # matrix products round their inputs to 10 bits of mantissa
    bf16 = "bf16"  # the body's weights and activations have 7 bits; the unembedding computes in tf32

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self is Precision.bf16 else torch.float32

    @contextlib.contextmanager
    def in_matrix_products(self) -> Iterator[None]:
        """Set how float32 matrix products round while the block runs."""
        before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        torch.set_float32_matmul_precision("highest" if self is Precision.fp32 else "high")
        torch.backends.cudnn.allow_tf32 = self is not Precision.fp32  # for LSTMs
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before[0])
            torch.backends.cudnn.allow_tf32 = before[1]


def pick_precision(name: str, device: torch.device, model: Model | None = None) -> Precision:
    """Return the precision; `auto` is fp32 on the CPU, where it is fastest, and the model's fastest on a GPU."""
    if name == "auto":
        fastest = Precision.bf16 if model is None else Precision(model.engine.precisions[-1])
        return fastest if device.type == "cuda" else Precision.fp32
    if name not in list(Precision):
        raise unknown_name("precision", name, ["auto", *Precision])
    require(
        device.type == "cuda" or name == Precision.fp32, f"--precision {name} needs a GPU; the CPU computes in fp32"
    )
    return Precision(name)
