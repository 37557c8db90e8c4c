"""How much of a task's distribution its test set takes away from training, and of which lengths."""

from dataclasses import dataclass

import torch

from icecore.seeding import make_generator
from icecore.tasks.base import Task
from icecore.tasks.holdout import HeldOut

DRAWS = 16_384
FEW = 20  # draws of a length that say nothing of it
MUCH = 0.5


@dataclass(frozen=True)
class Rejected:
    """Test items among the draws, which training leaves out."""

    share: float
    of_lengths: dict[int, float]  # by the tokens of a prompt, where more than half of the draws are test items

    @property
    def is_much(self) -> bool:
        return self.share > MUCH or bool(self.of_lengths)

    def __str__(self) -> str:
        text = f"{100 * self.share:.1f} % of the draws are test items, which training leaves out"
        if not self.of_lengths:
            return text
        each = ", ".join(f"{100 * share:.0f} % of {length}" for length, share in self.of_lengths.items())
        return f"{text}; by the tokens of a prompt {each}: a model hardly sees such items before its test"


def what_is_rejected(task: Task) -> Rejected | None:
    """Of a stream that drops its test items; None where nothing is dropped."""
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
