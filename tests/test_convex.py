"""The solver behind the logistic lazy rule and the solved readout."""

import pytest
import torch
import torch.nn.functional as F

from icecore.convex import minimize


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_minimum_of_a_quadratic_is_the_solution_of_its_equations():
    root = random(12, 12)
    matrix, right = root @ root.T + 0.1 * torch.eye(12, dtype=torch.float64), random(12, seed=1)
    found = minimize(lambda x: x @ matrix @ x / 2 - right @ x, torch.zeros_like(right), 200, least_gradient=1e-9)
    # It ends where steps change the loss by less than its rounding, 1e-16: the root of that is left of the solution.
    assert torch.allclose(found, torch.linalg.solve(matrix, right), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_a_logistic_regression_is_that_of_torchs_solver(scale):
    """Features of very different size too. The penalty makes the minimum unique."""
    features, labels = random(200, 6), random(200, 4, seed=1).argmax(dim=1)
    features[:, 0] *= scale

    def loss(weights: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(features @ weights, labels) + 1e-4 * weights.square().sum()

    theirs = torch.zeros((6, 4), dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS(
        [theirs], max_iter=2000, line_search_fn="strong_wolfe", tolerance_grad=1e-9, tolerance_change=0
    )

    def closure() -> torch.Tensor:
        solver.zero_grad()
        value = loss(theirs)
        value.backward()
        return value

    solver.step(closure)
    ours = minimize(loss, torch.zeros((6, 4), dtype=torch.float64), 2000, least_gradient=1e-9)
    assert float(loss(ours)) <= float(loss(theirs.detach())) + 1e-12
    assert torch.allclose(ours, theirs.detach(), rtol=1e-3, atol=1e-5), "as near as the loss can tell"


def test_it_stops_at_a_minimum_and_after_its_iterations():
    calls = []

    def bowl(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        return (x**4).sum()

    assert minimize(bowl, torch.zeros(3), 100).tolist() == [0, 0, 0]
    assert len(calls) == 1, "the start is the minimum"
    start = torch.full((3,), 8.0)
    shown = [float(bowl(minimize(bowl, start, iterations))) for iterations in (0, 1, 3, 10)]
    assert shown == sorted(shown, reverse=True)
    assert shown[0] == 3 * 8.0**4
    assert shown[-1] < 1e-2 * shown[0]


def test_it_ends_where_rounding_leaves_nothing_to_gain():
    """In float32, no gradient of this gets as small as asked."""
    calls = 0

    def far_from_zero(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return 1e6 + (x - 0.3).square().sum()

    found = minimize(far_from_zero, torch.full((2,), 2.0), 1000, least_gradient=0.0)
    assert torch.allclose(found, torch.tensor(0.3), atol=0.3), "1e6 has a resolution of .06"
    assert calls < 200


def test_a_far_minimum_of_a_flat_function_is_approached():
    """Doubling the step does not reach it in one search; the best step found is taken."""
    found = minimize(lambda x: (1e-10 * (x - 1e6) ** 2).sum(), torch.zeros(1, dtype=torch.float64), 50)
    assert float(found) == pytest.approx(1e6, rel=1e-2)


def test_the_start_stays_and_what_is_not_finite_ends_the_search():
    start = torch.ones(2)
    found = minimize(lambda x: (x * float("nan")).sum(), start, 10)
    found += 1
    assert start.tolist() == [1, 1]
    assert minimize(lambda x: x.square().sum(), torch.zeros(0), 10).numel() == 0


def test_where_nothing_can_be_told_apart_it_ends_soon():
    """Float32 hides the last decreases: the search must not go on without one."""
    generator = torch.Generator().manual_seed(0)
    features, labels = torch.randint(2, (2000, 12), generator=generator).float(), torch.arange(2000) % 2
    calls = 0

    def loss(weights: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return F.cross_entropy(features @ weights, labels) + 1e-4 * weights.square().sum()

    minimize(loss, torch.zeros((12, 2)), 40)
    assert calls < 100, "25 trials in each of 40 searches are 1,000"
