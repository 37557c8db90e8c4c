"""Share of a task's draws that are test items, overall and by length."""

from dataclasses import dataclass

import torch

from icecore.seeding import make_generator
from icecore.tasks.base import Task
from icecore.tasks.holdout import HeldOut

DRAWS = 16_384
FEW = 20  # with fewer draws of a length, there is no estimate for it
MUCH = 0.5


@dataclass(frozen=True)
class Rejected:
    """Share of draws that are test items, which training excludes."""

    share: float
    of_lengths: dict[int, float]  # by prompt length, where more than half of the draws are test items

    @property
    def is_much(self) -> bool:
        return self.share > MUCH or bool(self.of_lengths)

    def __str__(self) -> str:
        text = f"{100 * self.share:.1f} % of the draws are test items, which training excludes"
        if not self.of_lengths:
            return text
        each = ", ".join(f"{100 * share:.0f} % of {length}" for length, share in self.of_lengths.items())
        return f"{text}; by prompt length in tokens, {each}: models see few such items in training"


def what_is_rejected(task: Task) -> Rejected | None:
    """Return the share of draws that are test items; None if the task drops none."""
    if not task.rejects_test_items:
        return None
    test, drawn = task.test_set(), task.draw(DRAWS, make_generator(0, "rejected"))
    is_test = torch.zeros(len(drawn), dtype=torch.bool)
    is_test[HeldOut.of(test.tokens, test.scored, task.vocab_size).find(drawn.tokens, drawn.scored)] = True
    lengths = drawn.scored.int().argmax(dim=1) + 1
    of_lengths = {}
    for length in lengths.unique().tolist():
        own = is_test[lengths == length].double()
        if len(own) >= FEW and float(own.mean()) > MUCH:
            of_lengths[length] = float(own.mean())
    return Rejected(float(is_test.double().mean()), of_lengths)
