"""Training step, on any device: losses and gradients of each group of seeds, clipping, AdamW."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.models.engines import ModelBatch
from icecore.models.engines.devices import has_kernels
from icecore.training.optimizer import AdamW, Vectors, norms_of
from icecore.training.parallel import Parallel
from icecore.training.population import Group, Population
from icecore.training.training_config import TrainingConfig

NEVER = -1


class Steps:
    """Population and its optimizer. All state of a step is on the device, so that it can be captured in a graph."""

    def __init__(self, population: Population, training: TrainingConfig, parallel: Parallel = Parallel()) -> None:
        self.population, self.parallel = population, parallel
        device, values = population.device, population.values
        self.gradients = {decays: torch.zeros_like(value) for decays, value in values.items()}
        self.gradient_of: dict[str, Tensor] = {}
        for decays, gradient in self.gradients.items():
            self.gradient_of |= population.parts_of(gradient, decays)
        self.means, self.squares = (
            {decays: torch.zeros_like(value) for decays, value in values.items()} for _ in range(2)
        )
        self.optimizer = AdamW(training, device)
        self.step: Int64[Tensor, ""] = torch.zeros((), dtype=torch.int64, device=device)
        self.loss: Float[Tensor, " seed"] = torch.zeros(len(population.seeds), device=device)
        self.first_bad_step: Int64[Tensor, " seed"] = torch.full_like(self.loss, NEVER, dtype=torch.int64)

    def take(self, *parts: ModelBatch) -> None:
        """Take one step of all seeds on one or more parts of a batch; `loss` becomes each seed's loss before it."""
        shares = self.loss_weights(parts)
        for group in self.population.groups:
            for index, (part, share) in enumerate(zip(parts, shares, strict=True)):
                self.add(group, *group.losses_and_gradients(part, share), is_first=index == 0)
        self.parallel.add([self.loss, *self.gradients.values()])
        norms = norms_of(list(self.gradients.values()))
        for decays, value in self.population.values.items():
            moments, rounded = (self.means[decays], self.squares[decays]), self.population.rounded.get(decays)
            self.optimizer.update(Vectors(value, self.gradients[decays], *moments, rounded, decays), norms, self.step)
        self.population.expand()
        self.end()

    def end(self) -> None:
        """Record the step for seeds whose loss is not finite for the first time, then increment it."""
        if has_kernels(self.step):
            from icecore.training.step_kernels import end_step

            end_step(self.step, self.loss, self.first_bad_step, NEVER)
        else:
            self.plain_end()

    def plain_end(self) -> None:
        """End the step with torch: the reference for the kernel."""
        newly_bad = ~self.loss.isfinite() & (self.first_bad_step == NEVER)
        self.first_bad_step.copy_(torch.where(newly_bad, self.step, self.first_bad_step))
        self.step += 1

    def loss_weights(self, parts: Sequence[ModelBatch]) -> list[Float[Tensor, ""] | None]:
        """Return each part's share of the batch's scored positions; None for a single part."""
        if len(parts) == 1 and self.parallel.processes == 1:
            return [None]
        weights = [part.targets.weight.sum() for part in parts]
        total = torch.stack(weights).sum()
        self.parallel.add([total])
        return [weight / total for weight in weights]

    def add(self, group: Group, loss: Float[Tensor, " seed"], gradients: Mapping[str, Tensor], is_first: bool) -> None:
        """Write the first micro-batch's loss and gradients; accumulate the others."""
        places = [self.gradient_of[name][group.seeds] for name in gradients]
        if is_first:
            self.loss[group.seeds] = loss
            for name in self.gradient_of.keys() - gradients.keys():  # not used by this batch
                self.gradient_of[name][group.seeds].zero_()
            copy_all(places, list(gradients.values()))
        else:
            self.loss[group.seeds] += loss
            torch._foreach_add_(places, list(gradients.values()))  # pyright: ignore[reportPrivateImportUsage]

    def state(self) -> dict[str, Tensor]:
        """Return views of a checkpoint's tensors: values and both moments, by name."""
        views = {f"value/{name}": value for name, value in self.population.trained.items()}
        for kind, moments in (("mean", self.means), ("square", self.squares)):
            for decays, moment in moments.items():
                views |= {f"{kind}/{name}": part for name, part in self.population.parts_of(moment, decays).items()}
        return views

    @torch.no_grad()
    def set_state(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        for name, view in self.state().items():
            view.copy_(tensors[name])
        self.population.follow()
        self.step.fill_(step)
        self.first_bad_step.fill_(NEVER)


def copy_all(places: list[Tensor], values: list[Tensor]) -> None:
    """Copy many tensors, with one launch per dtype."""
    by_type: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for place, value in zip(places, values, strict=True):
        for members, member in zip(by_type.setdefault(value.dtype, ([], [])), (place, value), strict=True):
            members.append(member)
    for members in by_type.values():
        torch._foreach_copy_(*members)  # pyright: ignore[reportPrivateImportUsage]
