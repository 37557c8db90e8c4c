"""What one step does, on any device: losses and gradients of each group of seeds, clipping, AdamW."""

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.training.config import Optimization
from icecore.training.population import Population, clip_each_seed, losses
from icecore.training.work import Work

NEVER = -1


class Steps:
    """A population and its optimizer. All that a step reads or writes is on the device, so that it can be captured."""

    def __init__(self, population: Population, optimization: Optimization) -> None:
        self.population, self.clip = population, optimization.clip
        device, values = population.device, population.values
        self.gradients = {decays: torch.zeros_like(value) for decays, value in values.items()}
        self.gradient_of: dict[str, Tensor] = {}
        for decays, gradient in self.gradients.items():
            self.gradient_of |= population.parts_of(gradient, decays)
            values[decays].grad = gradient
        self.rates = torch.tensor([optimization.lr_at(step) for step in range(optimization.steps)], device=device)
        self.rate = torch.zeros((), device=device)
        self.step: Int64[Tensor, ""] = torch.zeros((), dtype=torch.int64, device=device)
        self.loss: Float[Tensor, " seed"] = torch.zeros(len(population.seeds), device=device)
        self.first_bad_step: Int64[Tensor, " seed"] = torch.full_like(self.loss, NEVER, dtype=torch.int64)
        groups = [
            {"params": [value], "weight_decay": optimization.weight_decay if decays else 0.0}
            for decays, value in values.items()
        ]
        self.optimizer = torch.optim.AdamW(
            groups, lr=self.rate, betas=(0.9, 0.999), eps=1e-8, fused=True, capturable=device.type == "cuda"
        )
        for value in values.values():
            self.optimizer.state[value] = {
                "step": torch.zeros((), device=device),
                "exp_avg": torch.zeros_like(value),
                "exp_avg_sq": torch.zeros_like(value),
            }

    def take(self, work: Work) -> None:
        """One step of all seeds. `loss` is then each seed's loss before it."""
        for group in self.population.groups:
            loss = losses(group.logits(work), work.answers)
            found = torch.autograd.grad(loss.sum(), list(group.leaves.values()), allow_unused=True)
            self.loss[group.seeds] = loss.detach()
            places = [self.gradient_of[name][group.seeds] for name in group.leaves]
            used = [(place, gradient) for place, gradient in zip(places, found, strict=True) if gradient is not None]
            copy_all([place for place, _ in used], [gradient for _, gradient in used])
        newly_bad = ~self.loss.isfinite() & (self.first_bad_step == NEVER)
        self.first_bad_step.copy_(torch.where(newly_bad, self.step, self.first_bad_step))
        clip_each_seed(list(self.gradients.values()), self.clip)
        self.rate.copy_(self.rates.index_select(0, self.step.view(1))[0])
        self.optimizer.step()
        self.step += 1

    def state(self) -> dict[str, Tensor]:
        """Views of all that a checkpoint holds beside the step: values and both moments, by name."""
        views = {f"value/{name}": value for name, value in self.population.trained.items()}
        for kind, key in (("mean", "exp_avg"), ("square", "exp_avg_sq")):
            for decays, value in self.population.values.items():
                parts = self.population.parts_of(self.optimizer.state[value][key], decays)
                views |= {f"{kind}/{name}": part for name, part in parts.items()}
        return views

    @torch.no_grad()
    def set_state(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        for name, view in self.state().items():
            view.copy_(tensors[name])
        self.step.fill_(step)
        self.first_bad_step.fill_(NEVER)
        for value in self.population.values.values():
            self.optimizer.state[value]["step"].fill_(step)


def copy_all(places: list[Tensor], values: list[Tensor]) -> None:
    """Copy many tensors by few launches."""
    torch._foreach_copy_(places, values)  # pyright: ignore[reportPrivateImportUsage]
