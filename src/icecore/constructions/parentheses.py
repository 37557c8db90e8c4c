"""Parenthesis balancing: the mean depth so far at every position, then the lowest of them."""

import itertools
from collections.abc import Iterator

from icecore.constructions.circuit import GAP, Circuit
from icecore.tasks import Item, Parentheses
from icecore.tasks.parentheses import BALANCED, CLOSE, OPEN, QUESTION, UNBALANCED, is_balanced

DIRECTIONS = ("sign", "verdict", "mean")
WRONG = 6.0  # what the smallest possible depth other than zero is scaled to: gelu(6) + gelu(-6) is 6


def circuit(task: Parentheses) -> Circuit:
    """Write the weights: two layers, three directions, no positions.

    SOURCE: appendix F. A string is balanced if its depth ends at 0 and is never below. Uniform attention gives the mean
    of the signs, depth / position, which has the depth's sign. DIFFERS: the paper breaks ties towards the last position
    and then checks which one is attended to. We check the last position's own mean instead: if it is 0, the lowest mean
    is 0 or below, and the string is balanced if it is 0, wherever it is.
    """
    made = Circuit(task, DIRECTIONS, layers=2)
    made.tokens[OPEN] = made.vector(sign=1)
    made.tokens[CLOSE] = made.vector(sign=-1)
    made.tokens[QUESTION] = made.vector(verdict=1)  # balanced, unless the second MLP finds a reason
    made.attend(0, 1.0, [], {("sign", "mean"): 1.0})
    # Means that differ from 0 do so by 1 / max_length. Layer norm shortens them, at most by sqrt(3), in their order.
    smallest = 1 / task.max_length / 3**0.5
    lowest = (made.reading(constant=1), made.reading(mean=-GAP / smallest))
    made.attend(1, 1.0, [lowest], {("mean", "sign"): 1.0})
    for name in ("mean", "sign"):  # at the question: its own mean, and the lowest one
        for sign in (1, -1):
            made.neuron(1, 1.0, made.reading(**{name: sign * WRONG / smallest}), made.vector(verdict=-1))
    made.unembed[BALANCED] = made.vector(verdict=1)
    made.unembed[UNBALANCED] = made.vector(verdict=-1)
    return made


def count_inputs(task: Parentheses) -> int:
    return 2 ** (2 * task.max_pairs + 1) - 2**task.min_length


def every_input(task: Parentheses) -> Iterator[Item]:
    for length in range(task.min_length, 2 * task.max_pairs + 1):
        for text in itertools.product((OPEN, CLOSE), repeat=length):
            yield Item((*text, QUESTION), (BALANCED if is_balanced(text) else UNBALANCED,))
