"""Validation items: rates and widths are chosen on them, never on test items.

Unlimited training data: fresh items that are no test items. A finite training set: a tenth of it. Where nothing is held
out, as in memorization, all items are validation items too.
"""

import dataclasses
import functools
from typing import Any

import torch

from icecore.errors import require
from icecore.seeding import make_generator
from icecore.tasks.base import Task
from icecore.tasks.batch import Batch
from icecore.tasks.holdout import HeldOut

MOST_ITEMS = 2_000
SHARE = 10  # one in this many items of a finite training set


def drawn_validation_set(task: Task) -> Batch:
    """Return the validation items of a task that does not define its own."""
    if task.test_split == "none":
        return task.test_set()
    train_set = task.train_set()
    if train_set is not None:
        order = torch.randperm(len(train_set), generator=make_generator(0, "validation"))
        count = min(MOST_ITEMS, len(train_set) // SHARE)
        require(
            count > 0,
            f"{task.name} has {len(train_set)} training items, too few to hold some out: enlarge it, or give one --lr",
        )
        return train_set[order[:count]]
    count = min(MOST_ITEMS, len(task.test_set()))
    without_test = task if task.rejects_test_items else changed(task, {"rejects_test_items": True})
    return without_test.sample(count, make_generator(0, "validation"))


@functools.lru_cache(maxsize=64)
def without_validation(task: Task) -> Task:
    """Return the task whose training data lack its validation items, and its test items."""
    if task.test_split == "none":
        return task
    validation, train_set = task.validation_set(), task.train_set()
    if train_set is None:
        held = Batch.concatenate([task.test_set(), validation])
        return changed(task, {"test_set": lambda _: held, "rejects_test_items": True})
    is_kept = torch.ones(len(train_set), dtype=torch.bool)
    held_out = HeldOut.of(validation.tokens, validation.scored, task.vocab_size)
    is_kept[held_out.find(train_set.tokens, train_set.scored)] = False
    kept = train_set[is_kept]
    return changed(task, {"train_set": lambda _: kept})


def changed(task: Task, members: dict[str, Any]) -> Task:
    """Return the task with these members instead of its own; it is not saved."""
    kind = type(task)
    made = type(kind.__name__, (kind,), {"__module__": kind.__module__, **members})
    assert dataclasses.is_dataclass(kind)
    return made(**{field.name: getattr(task, field.name) for field in dataclasses.fields(kind)})
