"""For tests that an engine gives what the reference gives."""

import torch

from icecore.models.engines import ModelBatch, ReferenceEngine
from icecore.tasks import Batch
from icecore.training import Population


@torch.no_grad()
def shaken(population: Population) -> Population:
    """Add noise to all that trains: biases begin as 0 and norms as 1, which would hide most mistakes."""
    for value in population.values.values():
        noise = torch.randn(value.shape, generator=torch.Generator().manual_seed(0), dtype=value.dtype)
        value += 0.1 * noise.to(value.device)
    population.follow()
    return population


def results_by_place(population: Population, batch: Batch | ModelBatch) -> dict[str, torch.Tensor]:
    """Return logits in the order of the batch, losses, and gradients that are not 0."""
    (group,) = population.groups
    prepared = population.prepare(batch) if isinstance(batch, Batch) else batch
    logits = group.network.logits(prepared.inputs)
    loss, found = group.losses_and_gradients(prepared)
    scored = prepared.targets.weight > 0
    order = prepared.targets.flat_indices[scored].argsort()
    gradients = {name: gradient for name, gradient in found.items() if bool((gradient != 0).any())}
    return {"logits": logits[:, scored][:, order].detach(), "loss": loss, **gradients}


def reference_results(population: Population, batch: Batch) -> dict[str, torch.Tensor]:
    """Return the same as the model's definition gives it."""
    return results_by_place(population.copy(engine=ReferenceEngine), batch)
