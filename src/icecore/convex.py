"""Minimize a smooth convex function. torch's L-BFGS needs a second to import what it does not use (a compiler)."""

import math
from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

SUFFICIENT_DECREASE, CURVATURE = 1e-4, 0.9  # the constants of Wolfe's two conditions
PAIRS = 20  # of steps and gradient changes that approximate the Hessian
LINE_TRIALS = 25

Point = tuple[float, Tensor]  # loss and gradient
Pairs = deque[tuple[Tensor, Tensor]]


def minimize(
    loss_of: Callable[[Tensor], Tensor], start: Tensor, iterations: int, least_gradient: float = 1e-7
) -> Tensor:
    """Return the minimizer of `loss_of`, by L-BFGS from `start`.

    It ends earlier where no gradient exceeds `least_gradient`, and where rounding leaves nothing to gain.
    """

    def at(point: Tensor) -> Point:
        leaf = point.view_as(start).detach().requires_grad_()
        with torch.enable_grad():
            loss = loss_of(leaf)
            (gradient,) = torch.autograd.grad(loss, leaf)
        return float(loss.detach()), gradient.flatten()

    point = start.detach().flatten().clone()
    loss, gradient = at(point)
    pairs: Pairs = deque(maxlen=PAIRS)
    for _ in range(iterations):
        if not math.isfinite(loss) or not (gradient.abs() > least_gradient).any():
            break
        direction = -inverse_hessian_product(gradient, pairs)
        first = 1.0 if pairs else min(1.0, 1.0 / float(gradient.abs().sum()))
        found = line_search(at, point, direction, loss, float(gradient @ direction), first)
        if found is None or not found[1][0] < loss:
            break
        length, (loss, after) = found
        step, change = length * direction, after - gradient
        if step @ change > 0:  # rounding may hide the curvature
            pairs.append((step, change))
        point, gradient = point + step, after
    return point.view_as(start)


def inverse_hessian_product(gradient: Tensor, pairs: Pairs) -> Tensor:
    """Return the approximate inverse Hessian times the gradient, by the two-loop recursion."""
    # SOURCE: Nocedal and Wright, Numerical Optimization, algorithm 7.4.
    product, weights = gradient.clone(), []
    for step, change in reversed(pairs):
        weight = (step @ product) / (step @ change)
        product -= weight * change
        weights.append(weight)
    if pairs:
        step, change = pairs[-1]
        product *= (step @ change) / (change @ change)
    for (step, change), weight in zip(pairs, reversed(weights), strict=True):
        product += (weight - (change @ product) / (step @ change)) * step
    return product


def line_search(
    at: Callable[[Tensor], Point], point: Tensor, direction: Tensor, loss: float, slope: float, length: float
) -> tuple[float, Point] | None:
    """Return a length that meets Wolfe's conditions, with loss and gradient there.

    If none is found, return one that decreases the loss enough; None if there is none either.
    """
    low, high = 0.0, math.inf
    best: tuple[float, Point] | None = None
    for _ in range(LINE_TRIALS):
        reached, gradient = at(point + length * direction)
        if not reached <= loss + SUFFICIENT_DECREASE * length * slope:
            high = length
        else:
            best = length, (reached, gradient)
            if float(gradient @ direction) >= CURVATURE * slope:
                return best
            low = length
        length = 2 * length if high == math.inf else (low + high) / 2
    return best
