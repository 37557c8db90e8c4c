"""Modular addition by the "pizza" algorithm: add the numbers' points on circles, then double the angle."""

import itertools
import math
from collections.abc import Iterator

from icecore.constructions.circuit import GAP, Circuit, on_circle
from icecore.errors import require
from icecore.tasks import Item, ModularAddition

COPIES = 3  # SOURCE: appendix F, against pairs that are opposite on one circle
RADIUS = 100.0  # radius of the circles; large, so that layer norm's epsilon does not matter
DIRECTIONS = 5  # in which a circle is read, to double its angle
READ = 0.25  # small enough for gelu's even part to be nearly a square
LOUD = 1e6  # the doubled angle against the circles it is added to


def circuit(task: ModularAddition, copies: int = COPIES) -> Circuit:
    """Write the weights: one layer, two directions per copy and one that tells the first number from the second.

    Attention at the second number reads the first, so the stream is the sum of both points, R (E_a + E_b). On circle k
    it has the angle of k (a + b) / 2, up to its sign, and the length 2 |cos(pi k (a - b) / p)|. The MLP doubles the
    angle, which forgets the sign. The logit of c is a positive sum over k of cos(2 pi k (a + b - c) / p).
    """
    require(1 <= copies <= 8, f"copies must be 1 to 8, got {copies}")
    p = task.modulus
    require(p % 2 == 1, f"modulus must be odd, got {p}: with an even one, a and a + {p // 2} are opposite on a circle")
    names = [(f"cosine{k}", f"sine{k}") for k in range(1, copies + 1)]
    made = Circuit(task, (*itertools.chain(*names), "first"), layers=1)
    length = RADIUS * math.sqrt(copies + 1)
    for number in range(p):
        for k, (cosine, sine) in enumerate(names, start=1):
            x, y = on_circle(k * number % p, p)
            made.tokens[number] += made.vector(**{cosine: RADIUS * x, sine: RADIUS * y})
            made.unembed[number] += made.vector(**{cosine: x, sine: y})
    made.positions[0] = made.vector(first=RADIUS)
    made.positions[1] = made.vector(first=-RADIUS)
    # The second number attends to the first alone. The same move cancels `first`.
    to_first = (made.reading(constant=GAP), made.reading(first=1 / RADIUS))
    made.attend(0, length, [to_first], {(name, name): 1.0 for name in made.names})
    # Layer norm makes all circles together as long as sqrt(width), whatever a - b is.
    for cosine, sine in names:
        for step in range(DIRECTIONS):
            angle = math.pi * step / DIRECTIONS
            towards = {cosine: READ * math.cos(angle), sine: READ * math.sin(angle)}
            doubled = made.vector(**{cosine: math.cos(2 * angle), sine: math.sin(2 * angle)})
            for sign in (1, -1):  # gelu(x) + gelu(-x) is even
                read = made.reading(**{name: sign * value for name, value in towards.items()})
                made.neuron(0, 1.0, read, LOUD * RADIUS * doubled)
    return made


def count_inputs(task: ModularAddition) -> int:
    return task.modulus**2


def every_input(task: ModularAddition) -> Iterator[Item]:
    p = task.modulus
    return (Item((a, b), ((a + b) % p,)) for a in range(p) for b in range(p))
