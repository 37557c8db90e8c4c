"""The constructions, by the name of their task."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from icecore.constructions import decimal_addition, modular_addition, needle, parentheses
from icecore.constructions.circuit import Circuit
from icecore.errors import unknown_name
from icecore.tasks import DecimalAddition, Item, ModularAddition, Needle, Parentheses, Task


@dataclass(frozen=True)
class Construction:
    """Weights for a task, written by hand, and all of its inputs."""

    task: type[Task]
    idea: str
    paper: str  # the width that appendix F says suffices
    circuit: Callable[..., Circuit]
    count_inputs: Callable[[Any], int]
    every_input: Callable[[Any], Iterator[Item]]
    small: Callable[[Any], Task]  # the same task at a size where every input can be checked
    options: Mapping[str, int] = field(default_factory=dict)  # beside the task's settings, with defaults

    @property
    def name(self) -> str:
        return self.task.name


def small_needle(task: Needle) -> Needle:
    pairs, values = 4, 5
    markers = pairs + task.spare_markers
    vocabulary = 1 + values + (2 if task.query == "own-token" else 1) * markers
    return replace(task, max_pairs=pairs, values=values, vocabulary=vocabulary)


CONSTRUCTIONS = {
    one.name: one
    for one in (
        Construction(
            ModularAddition,
            "add points on circles, double the angle",
            "6",
            modular_addition.circuit,
            modular_addition.count_inputs,
            modular_addition.every_input,
            lambda _: ModularAddition(modulus=59),
            {"copies": modular_addition.COPIES},
        ),
        Construction(
            Needle,
            "values note the marker before them, the query finds its value",
            "2 x vocabulary",
            needle.circuit,
            needle.count_inputs,
            needle.every_input,
            small_needle,
        ),
        Construction(
            DecimalAddition,
            "weigh two places ten to one, subtract the last digit, drop a carry",
            "constant",
            decimal_addition.circuit,
            decimal_addition.count_inputs,
            decimal_addition.every_input,
            lambda task: replace(task, digits=2),
        ),
        Construction(
            Parentheses,
            "mean of the signs so far, then the lowest mean",
            "constant",
            parentheses.circuit,
            parentheses.count_inputs,
            parentheses.every_input,
            lambda task: replace(task, max_pairs=7, min_length=min(task.min_length, 14)),
        ),
    )
}


def construction_of(task: Task) -> Construction:
    """Return the construction of a task; raise if there is none."""
    found = CONSTRUCTIONS.get(task.name)
    if found is None or type(task) is not found.task:
        raise unknown_name("construction", task.name, CONSTRUCTIONS)
    return found
