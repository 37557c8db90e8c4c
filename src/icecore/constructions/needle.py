"""Needle in a haystack by an induction head: each value notes the marker before it, the query finds the value."""

import itertools
import math
from collections.abc import Iterator

from icecore.constructions.circuit import Circuit, on_circle, sharpness
from icecore.tasks import Item, Needle

DIRECTIONS = ("value_cosine", "value_sine", "marker_cosine", "marker_sine", "place_cosine", "place_sine", "is_value")
ONLY_VALUES = 4.0  # a marker matches itself up to 1.7 times as well as its value does: values get 4 more


def circuit(task: Needle) -> Circuit:
    """Write the weights: two layers, a circle each for values, markers and positions.

    SOURCE: appendix F's induction heads. It bounds the width by twice the vocabulary. Points on a circle are told
    apart by their inner product, so two directions do for any vocabulary, at the price of sharper attention.
    """
    made = Circuit(task, DIRECTIONS, layers=2)
    for value in range(1, task.values + 1):
        x, y = on_circle(value, task.values)
        made.tokens[value] = made.vector(value_cosine=x, value_sine=y, is_value=1)
        made.unembed[value] = made.vector(value_cosine=x, value_sine=y)
    for marker in range(task.markers):
        x, y = on_circle(marker, task.markers)
        for token in {task.first_marker + marker, task.first_query + marker}:
            made.tokens[token] = made.vector(marker_cosine=x, marker_sine=y, is_value=-1)
    for place in range(task.max_length):
        x, y = on_circle(place, task.max_length)
        made.positions[place] = made.vector(place_cosine=x, place_sine=y)
    # Layer 1: attend to the position before. Only markers have a marker, so a value notes it, and others note nothing.
    back_x, back_y = on_circle(1, task.max_length)
    sharp = sharpness(task.max_length)
    scores = [
        (made.reading(place_cosine=back_x, place_sine=back_y), made.reading(place_cosine=sharp)),
        (made.reading(place_cosine=-back_y, place_sine=back_x), made.reading(place_sine=sharp)),
    ]
    noted = {(name, name): 1.0 for name in ("marker_cosine", "marker_sine")}
    made.attend(0, math.sqrt(3), scores, noted)
    # Layer 2: attend to the value whose marker is the query's, and fetch it. A value is now sqrt(4) long.
    sharp = sharpness(task.markers)
    scores = [
        (made.reading(marker_cosine=1), made.reading(marker_cosine=sharp)),
        (made.reading(marker_sine=1), made.reading(marker_sine=sharp)),
        (made.reading(constant=1), made.reading(is_value=ONLY_VALUES * sharp)),
    ]
    made.attend(1, 2.0, scores, {(name, name): 1.0 for name in ("value_cosine", "value_sine")})
    return made


def count_inputs(task: Needle) -> int:
    return sum(math.perm(task.markers, pairs) * task.values**pairs * pairs for pairs in range(1, task.max_pairs + 1))


def every_input(task: Needle) -> Iterator[Item]:
    for pairs in range(1, task.max_pairs + 1):
        for markers in itertools.permutations(range(task.markers), pairs):
            for values in itertools.product(range(1, task.values + 1), repeat=pairs):
                context = [
                    token
                    for marker, value in zip(markers, values, strict=True)
                    for token in (task.first_marker + marker, value)
                ]
                for marker, value in zip(markers, values, strict=True):
                    yield Item((*context, task.first_query + marker), (value,))
