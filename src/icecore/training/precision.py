"""In which precision the body computes. Trained parameters, optimizer and loss are float32 throughout."""

import contextlib
from collections.abc import Iterator
from enum import StrEnum

import torch

from icecore.errors import require, unknown_name
from icecore.models import Model, has_fast_path


class Precision(StrEnum):
    fp32 = "fp32"
    tf32 = "tf32"  # matrix products round their inputs to 10 bits of mantissa
    bf16 = "bf16"  # the body's weights and activations have 7; the unembedding computes in tf32

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self is Precision.bf16 else torch.float32

    @contextlib.contextmanager
    def in_matrix_products(self) -> Iterator[None]:
        """Set what float32 matrix products may do, and set it back."""
        before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        torch.set_float32_matmul_precision("highest" if self is Precision.fp32 else "high")
        torch.backends.cudnn.allow_tf32 = self is not Precision.fp32  # of LSTMs
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before[0])
            torch.backends.cudnn.allow_tf32 = before[1]


def pick_precision(name: str, device: torch.device, model: Model | None = None) -> Precision:
    """`auto` is fp32 on the CPU, where nothing else is faster; on a GPU bf16, or tf32 for what computes in float32."""
    if name == "auto":
        on_a_gpu = Precision.bf16 if model is None or has_fast_path(model) else Precision.tf32
        return on_a_gpu if device.type == "cuda" else Precision.fp32
    if name not in list(Precision):
        raise unknown_name("precision", name, ["auto", *Precision])
    require(
        device.type == "cuda" or name == Precision.fp32, f"--precision {name} needs a GPU; the CPU computes in fp32"
    )
    return Precision(name)
