"""AdamW with gradient clipping per seed, on flat vectors: a fused kernel on a GPU, torch's own elsewhere."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.models.engines.devices import has_kernels
from icecore.training.training_config import TrainingConfig

BETAS, EPSILON = (0.9, 0.999), 1e-8  # SOURCE: torch's defaults, as in the released scripts


@dataclass(frozen=True)
class Vectors:
    """Tensors of an update, each (seed, value)."""

    value: Tensor
    gradient: Tensor
    mean: Tensor
    square: Tensor
    rounded: Tensor | None  # copy of the values in the compute dtype
    decays: bool


class AdamW:
    """AdamW. Its schedule is on the device, so that steps can be captured in a graph."""

    def __init__(self, training: TrainingConfig, device: torch.device) -> None:
        self.weight_decay, self.largest_norm = training.weight_decay, training.clip
        self.schedule = torch.tensor(  # learning rate and bias corrections
            [(training.lr_at(step), *(1 - beta ** (step + 1) for beta in BETAS)) for step in range(training.steps)],
            device=device,
        )

    def update(self, vectors: Vectors, norms: Float[Tensor, "vector seed"], step: Int64[Tensor, ""]) -> None:
        """Update in place. `norms` cover all gradients, which are clipped together."""
        if has_kernels(vectors.value):
            from icecore.training.step_kernels import adamw

            decay = self.weight_decay if vectors.decays else 0.0
            adamw(vectors, norms, step, self.schedule, self.largest_norm, decay, BETAS, EPSILON)
        else:
            self.plain_update(vectors, norms, step)

    def plain_update(self, vectors: Vectors, norms: Float[Tensor, "vector seed"], step: Int64[Tensor, ""]) -> None:
        """Update with torch: the reference for the kernel."""
        vectors.gradient.mul_(clip_factors(norms, self.largest_norm)[:, None])
        torch._fused_adamw_(  # pyright: ignore[reportPrivateImportUsage]
            [vectors.value],
            [vectors.gradient],
            [vectors.mean],
            [vectors.square],
            [],
            [step.float() + 1],
            lr=self.schedule.index_select(0, step.view(1))[0, 0],
            beta1=BETAS[0],
            beta2=BETAS[1],
            weight_decay=self.weight_decay if vectors.decays else 0.0,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )
        if vectors.rounded is not None:
            vectors.rounded.copy_(vectors.value)


def norms_of(gradients: list[Float[Tensor, "seed _"]]) -> Float[Tensor, "vector seed"]:
    return torch.stack([torch.linalg.vector_norm(part, dim=1) for part in gradients])


def clip_factors(norms: Float[Tensor, "vector seed"], largest: float) -> Float[Tensor, " seed"]:
    """Return the factor that clips each seed's gradient to a norm of at most `largest`."""
    return (largest / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)).clamp(max=1.0)
