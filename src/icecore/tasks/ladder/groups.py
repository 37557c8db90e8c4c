"""Three groups of order 60, as multiplication tables: abelian, solvable, and not solvable."""

import functools
import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import Literal, get_args

import torch
from jaxtyping import Int64
from torch import Tensor

Group = Literal["Z60", "A4xZ5", "A5"]
GROUPS: tuple[Group, ...] = get_args(Group)
ORDER = 60

Permutation = tuple[int, ...]


@functools.cache
def group_table(group: Group) -> Int64[Tensor, "60 60"]:
    """Return the product of each pair of elements; element 0 is the identity."""
    if group == "Z60":
        return table_of(range(ORDER), lambda a, b: (a + b) % ORDER)
    if group == "A5":
        return table_of(even_permutations(5), then)
    pairs = list(itertools.product(even_permutations(4), range(5)))
    return table_of(pairs, lambda a, b: (then(a[0], b[0]), (a[1] + b[1]) % 5))


def table_of(elements: Sequence[Hashable], product: Callable) -> Int64[Tensor, "order order"]:
    number = {element: index for index, element in enumerate(elements)}
    return torch.tensor([[number[product(a, b)] for b in elements] for a in elements])


def even_permutations(points: int) -> list[Permutation]:
    """Return the alternating group, in lexical order."""
    return [each for each in itertools.permutations(range(points)) if inversions(each) % 2 == 0]


def inversions(permutation: Permutation) -> int:
    return sum(a > b for a, b in itertools.combinations(permutation, 2))


def then(first: Permutation, second: Permutation) -> Permutation:
    """Return the permutation that applies `first`, then `second`."""
    return tuple(second[point] for point in first)
