"""AdamW with each seed's clipping, on long vectors: in one pass by a kernel on a GPU, by torch's own elsewhere."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.training.config import Optimization

BETAS, EPSILON = (0.9, 0.999), 1e-8  # SOURCE: torch's defaults, which the released scripts have


@dataclass(frozen=True)
class Vectors:
    """What an update reads and writes, each (seed, value)."""

    value: Tensor
    gradient: Tensor
    mean: Tensor
    square: Tensor


class AdamW:
    """The rule. What it needs of a step is on the device, so that steps can be captured in a graph."""

    def __init__(self, optimization: Optimization, device: torch.device) -> None:
        self.weight_decay = optimization.weight_decay
        self.schedule = torch.tensor(
            [
                (optimization.lr_at(step), *(1 - beta ** (step + 1) for beta in BETAS))
                for step in range(optimization.steps)
            ],
            device=device,
        )
        self.now = torch.zeros(3, device=device)  # rate, and what makes up for moments that began at 0
        self.taken = torch.zeros((), device=device)  # steps before this one

    def begin_step(self, step: Int64[Tensor, ""]) -> None:
        self.now.copy_(self.schedule.index_select(0, step.view(1))[0])
        self.taken.copy_(step)

    def update(self, vectors: Vectors, factors: Float[Tensor, " seed"], decays: bool, rounded: Tensor | None) -> None:
        """Update in place, with gradients multiplied by each seed's factor; `rounded` follows the values."""
        decay = self.weight_decay if decays else 0.0
        if vectors.value.device.type == "cuda":
            from icecore.training.adamw_kernel import adamw

            adamw(vectors, factors, self.now, decay, BETAS, EPSILON, rounded)
        else:
            self.plain_update(vectors, factors, decay, rounded)

    def plain_update(
        self, vectors: Vectors, factors: Float[Tensor, " seed"], decay: float, rounded: Tensor | None
    ) -> None:
        """The twin of the kernel."""
        vectors.gradient.mul_(factors[:, None])
        torch._fused_adamw_(  # pyright: ignore[reportPrivateImportUsage]
            [vectors.value],
            [vectors.gradient],
            [vectors.mean],
            [vectors.square],
            [],
            [self.taken + 1],
            lr=self.now[0],
            beta1=BETAS[0],
            beta2=BETAS[1],
            weight_decay=decay,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )
        if rounded is not None:
            rounded.copy_(vectors.value)
