"""Check a construction on every input of a small size and on the test set, in several precisions."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from icecore.constructions.made import Constructed, construct
from icecore.tasks import Batch, Item, Task
from icecore.tasks.finite import PairTask, encode_pairs
from icecore.tasks.plain import PlainTask

PRECISIONS = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
MOST_INPUTS = 200_000  # check every input up to this number; a larger task is checked at its small size


@dataclass(frozen=True)
class Check:
    """Items of a kind, and how many of them are wrong in each precision. One wrong scored token makes an item wrong."""

    construction: str
    items_of: str
    settings: str  # settings of the small task, if it was checked
    items: int
    wrong: dict[str, int]


def checks_of(made: Constructed) -> Iterator[Check]:
    """Check every input, at the task's own size if it can be enumerated, else at a small one; then the test set."""
    construction = made.construction
    if construction.count_inputs(made.task) <= MOST_INPUTS:
        yield check(made, "every input", made.task, encode(made.task, construction.every_input(made.task)))
    else:
        small = construct(construction.small(made.task), **made.options)
        items = encode(small.task, construction.every_input(small.task))
        yield check(small, "every input", made.task, items)
    yield check(made, "test set", made.task, made.task.test_set())


def check(made: Constructed, items_of: str, task: Task, batch: Batch) -> Check:
    wrong = {name: int(are_wrong(made.predict(batch, dtype), batch).sum()) for name, dtype in PRECISIONS.items()}
    return Check(made.label, items_of, differences(made.task, task), len(batch), wrong)


def are_wrong(predictions: Tensor, batch: Batch) -> Bool[Tensor, " batch"]:
    return ((predictions != batch.targets) & batch.scored).any(dim=1)


def encode(task: Task, items: Iterable[Item]) -> Batch:
    items = list(items)
    if isinstance(task, PairTask):
        return encode_pairs(items)
    assert isinstance(task, PlainTask)
    return task.encode(items)


def differences(task: Task, usual: Task) -> str:
    """Return the settings in which a task differs from the usual one, in words."""
    changed = {name: value for name, value in vars(task).items() if value != getattr(usual, name)}
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in changed.items())
