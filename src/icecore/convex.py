"""Minimize a smooth convex function. torch's L-BFGS needs a second to import what it does not use (a compiler)."""

import math
from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

SUFFICIENT_DECREASE, LEAST_CURVATURE = 1e-4, 0.9  # Wolfe's conditions
PAIRS = 20  # of changes that approximate the curvature
LINE_TRIALS = 25


def minimize(
    loss_of: Callable[[Tensor], Tensor], start: Tensor, iterations: int, least_gradient: float = 1e-7
) -> Tensor:
    """Return where `loss_of` is least, by L-BFGS from `start`, until no gradient exceeds `least_gradient`."""

    def at(point: Tensor) -> tuple[float, Tensor]:
        leaf = point.view_as(start).detach().requires_grad_()
        with torch.enable_grad():
            loss = loss_of(leaf)
            (gradient,) = torch.autograd.grad(loss, leaf)
        return float(loss.detach()), gradient.flatten()

    point = start.detach().flatten()
    loss, gradient = at(point)
    changes: deque[tuple[Tensor, Tensor]] = deque(maxlen=PAIRS)
    for _ in range(iterations):
        if gradient.abs().max() <= least_gradient:
            break
        direction = -curved(gradient, changes)
        first = 1.0 if changes else min(1.0, 1.0 / float(gradient.abs().sum()))
        found = along(at, point, direction, loss, float(gradient @ direction), first)
        if found is None:  # rounding leaves nothing to gain
            break
        step, loss, after = found
        changes.append((step * direction, after - gradient))
        point, gradient = point + step * direction, after
    return point.view_as(start)


def curved(gradient: Tensor, changes: deque[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the gradient times the approximate inverse of the curvature, from changes of place and of gradient."""
    # SOURCE: Nocedal and Wright, Numerical Optimization, algorithm 7.4.
    vector, weights = gradient.clone(), []
    for moved, bent in reversed(changes):
        weight = (moved @ vector) / (moved @ bent)
        vector -= weight * bent
        weights.append(weight)
    if changes:
        moved, bent = changes[-1]
        vector *= (moved @ bent) / (bent @ bent)
    for (moved, bent), weight in zip(changes, reversed(weights), strict=True):
        vector += (weight - (bent @ vector) / (moved @ bent)) * moved
    return vector


def along(
    at: Callable[[Tensor], tuple[float, Tensor]],
    point: Tensor,
    direction: Tensor,
    loss: float,
    slope: float,
    step: float,
) -> tuple[float, float, Tensor] | None:
    """Return a step that meets Wolfe's conditions, with the loss and gradient there; None if none is found."""
    low, high = 0.0, math.inf
    for _ in range(LINE_TRIALS):
        reached, gradient = at(point + step * direction)
        if not reached <= loss + SUFFICIENT_DECREASE * step * slope:
            high = step
        elif float(gradient @ direction) < LEAST_CURVATURE * slope:
            low = step
        else:
            return step, reached, gradient
        step = 2 * step if high == math.inf else (low + high) / 2
    return None
