"""For tests that a fast path gives what the plain one gives."""

import torch

from icecore.training import Population
from icecore.training.work import Work


@torch.no_grad()
def shaken(population: Population) -> Population:
    """With noise on all that trains: biases begin as 0 and norms as 1, of which most mistakes could not be seen."""
    for value in population.values.values():
        noise = torch.randn(value.shape, generator=torch.Generator().manual_seed(0), dtype=value.dtype)
        value += 0.1 * noise.to(value.device)
    population.round_values()
    return population


def results_by_place(population: Population, work: Work) -> dict[str, torch.Tensor]:
    """Logits in the order of the batch, losses, and gradients that are not 0."""
    (group,) = population.groups
    logits = group.logits(work)
    loss, found = group.losses_and_gradients(work)
    scored = work.answers.weight > 0
    order = work.answers.places[scored].argsort()
    gradients = {name: gradient for name, gradient in found.items() if bool((gradient != 0).any())}
    return {"logits": logits[:, scored][:, order].detach(), "loss": loss, **gradients}
