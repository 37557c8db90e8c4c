"""What every task is: items, batches, a stream without test items, a test set, baselines."""

import abc
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64, Integer
from torch import Tensor

from icecore.errors import require
from icecore.seeding import make_generator
from icecore.tasks.holdout import HeldOut

MOST_DRAWS = 50  # times as many as should do: no task of which so few items are left can be trained on
# Of a setting that says where something lies, not what it is: no part of a run's name.
WHERE = {"where": True}


class Item(NamedTuple):
    """One question with its answer, as token ids without padding."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]


@dataclass(frozen=True)
class Rows(abc.ABC):
    """Sequences from position 0, padded on the right, in a form that `expand` makes a batch of."""

    tokens: Integer[Tensor, "batch seq"]

    def __len__(self) -> int:
        return len(self.tokens)

    @abc.abstractmethod
    def parts(self) -> tuple[Tensor, ...]:
        """The tensors, each with the batch as its first axis."""

    @abc.abstractmethod
    def find(self, held_out: HeldOut) -> Int64[Tensor, " found"]:
        """The indices of the held-out sequences."""

    @abc.abstractmethod
    def expand(self, width: int, /) -> "Batch":
        """The batch, `width` tokens wide."""


@dataclass(frozen=True)
class Batch(Rows):
    """Sequences from position 0, padded on the right; the logits at a scored position predict its target.

    Nothing after a sequence's last scored position is read, by loss, accuracy or model.
    """

    tokens: Int64[Tensor, "batch seq"]
    targets: Int64[Tensor, "batch seq"]  # what is predicted *at* this position; 0 where not scored
    scored: Bool[Tensor, "batch seq"]
    target_log_probs: Float[Tensor, "batch vocab"] | None = None  # circuit imitation alone

    def __getitem__(self, rows: slice | Tensor) -> "Batch":
        return Batch(*(part[rows] for part in self.parts()))

    def to(self, device: torch.device | str) -> "Batch":
        return Batch(*(part.to(device) for part in self.parts()))

    def parts(self) -> tuple[Tensor, ...]:
        parts = (self.tokens, self.targets, self.scored)
        return parts if self.target_log_probs is None else (*parts, self.target_log_probs)

    def find(self, held_out: HeldOut) -> Int64[Tensor, " found"]:
        return held_out.find(self.tokens, self.scored)

    def expand(self, _width: int, /) -> "Batch":
        return self

    @staticmethod
    def concatenate(batches: "Sequence[Batch]") -> "Batch":
        return Batch(*map(torch.cat, zip(*(batch.parts() for batch in batches), strict=True)))

    @property
    def lengths(self) -> Int64[Tensor, " batch"]:
        """For each sequence, how many tokens are read: up to the last scored position."""
        positions = torch.arange(1, self.scored.shape[1] + 1, device=self.scored.device)
        return (self.scored * positions).amax(dim=1)


class Task(abc.ABC):
    """A question that a model is trained on. Subclass it as a frozen dataclass of its settings.

    A stream of fresh items needs `name`, `vocab_size`, `max_length`, `draw` and `baselines`; the test set
    and its exclusion from the stream come with it. A fixed data set overrides `train_set` as well.
    """

    name: ClassVar[str]  # as on the command line
    version: ClassVar[int] = 1  # raise it when the same settings give other items
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"released": {}, "paper": {}}
    source_file: ClassVar[str | None] = None  # of a user's task, the file that it was loaded from,
    source_text: ClassVar[str | None] = None  # and what that held
    test_size: int = 4000  # a task may make it a setting
    # rejected: draws may hold test items, `sample` drops them; separate: draws never hold any;
    # none: nothing is held out, training items are scored.
    test_split: ClassVar[Literal["rejected", "separate", "none"]] = "rejected"

    def __init_subclass__(cls, **settings: Any) -> None:
        """A class made from a user's in Python is not what the file holds."""
        super().__init_subclass__(**settings)
        cls.source_file = cls.source_text = None

    @property
    @abc.abstractmethod
    def vocab_size(self) -> int:
        """Tokens are 0 to vocab_size - 1."""

    @property
    @abc.abstractmethod
    def max_length(self) -> int:
        """The longest sequence a model is fed: the width of `Batch.tokens`."""

    @abc.abstractmethod
    def draw(self, count: int, generator: torch.Generator) -> Batch:
        """`count` items of the task's distribution, on the generator's device, by tensor operations.

        Test items may be among them: `sample` keeps them out of training.
        """

    def draw_compact(self, count: int, generator: torch.Generator) -> Rows:
        """`draw` in short, if the task has such a form: test items are found and replaced there, at less cost."""
        return self.draw(count, generator)

    @abc.abstractmethod
    def baselines(self) -> dict[str, float]:
        """Accuracies that need no learning, by name, computed from the test items."""

    def loss_units(self, _batch: "Batch", /) -> dict[str, float]:
        """Other units of this batch's loss, by name: what it is multiplied with."""
        return {}

    @property
    def rejects_test_items(self) -> bool:
        """Whether `sample` drops test items."""
        return self.test_split == "rejected"

    def loss_baselines(self) -> dict[str, float]:
        """Losses that need no learning, by name, where loss is what counts."""
        return {}

    def train_set(self) -> Batch | None:
        """All items to train on, in order, if they are finitely many; None for an endless stream."""
        return None

    def test_set(self) -> Batch:
        """The fixed items that accuracy is measured on, on the CPU."""
        return self.draw(self.test_size, make_generator(0, "test"))

    def items(self, batch: Batch) -> list[Item]:
        """The batch without padding: the prompt ends at the first scored position."""
        tokens, targets, scored = (part.tolist() for part in (batch.tokens, batch.targets, batch.scored))
        return [
            Item(tuple(row[: mask.index(True) + 1]), tuple(t for t, m in zip(goal, mask, strict=True) if m))
            for row, goal, mask in zip(tokens, targets, scored, strict=True)
        ]

    def read(self, text: str) -> tuple[int, ...]:
        """A prompt in the task's own notation; if it has none, token numbers with spaces between."""
        words = text.split()
        require(
            bool(words) and all(word.isdecimal() for word in words), f"{self.name} reads tokens, as '3 4', not '{text}'"
        )
        return self.checked_prompt(tuple(map(int, words)))

    def words(self, tokens: Sequence[int]) -> list[str]:
        """Tokens as that notation writes them."""
        return [str(token) for token in tokens]

    def checked_prompt(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        unknown = [token for token in tokens if not 0 <= token < self.vocab_size]
        require(not unknown, f"{self.name} has the tokens 0 to {self.vocab_size - 1}, not {unknown}")
        require(
            len(tokens) <= self.max_length, f"{self.name} has up to {self.max_length} tokens, the prompt {len(tokens)}"
        )
        return tokens

    def test_items(self) -> list[Item]:
        return self.items(self.test_set())

    def sample(self, count: int, generator: torch.Generator) -> Batch:
        """`count` items to train on: independent draws, of which exactly the test items are dropped."""
        require_count(count)
        held_out = held_out_of(self, generator.device)
        if held_out is None:
            return self.draw(count, generator)
        # Rows in excess of `count` stand in for test items among the first `count`: of independent
        # draws it does not matter which are used. More are drawn where they do not suffice.
        expected = count * held_out.share / (1 - held_out.share)
        drawn = self.draw_compact(count + math.ceil(expected + 4 * math.sqrt(expected) + 4), generator)
        most = MOST_DRAWS * len(drawn) + 10_000
        while True:
            found = drawn.find(held_out.rows)
            to_replace = found[found < count]
            usable = torch.ones(len(drawn) - count, dtype=torch.bool, device=generator.device)
            usable[found[found >= count] - count] = False
            stand_ins = usable.nonzero()[:, 0][: len(to_replace)] + count
            if len(stand_ins) == len(to_replace):
                break
            require(
                len(drawn) <= most,
                f"{len(drawn):,} draws of {self.name} hold less than {count:,} items that are not in its test set; "
                "draw from the generator that is given, or let the task have more items",
            )
            more = self.draw_compact(count, generator)
            drawn = type(drawn)(*map(torch.cat, zip(drawn.parts(), more.parts(), strict=True)))
        # Into a copy: what was drawn may be a view of what the task keeps.
        parts = (part.index_copy(0, to_replace, part.index_select(0, stand_ins)) for part in drawn.parts())
        return type(drawn)(*(part[:count] for part in parts)).expand(self.max_length)

    def accuracies(
        self, predictions: Int64[Tensor, "*seeds batch seq"], batch: Batch
    ) -> dict[str, Float[Tensor, "*seeds"]]:
        """Named accuracies of `predictions`, one for each leading index; `accuracy` is the main one."""
        return {"accuracy": token_accuracy(predictions, batch, batch.scored)}

    def metrics(self) -> list[str]:
        """The names of its accuracies."""
        item = self.test_set()[:1]
        return list(self.accuracies(item.targets[None], item))


def require_count(count: int) -> None:
    require(count >= 1, f"the number of items must be at least 1, got {count}")


@dataclass(frozen=True, eq=False)
class Rejection:
    """What `sample` has to drop, and about how often that happens."""

    rows: HeldOut
    share: float


@functools.lru_cache(maxsize=64)
def held_out_of(task: Task, device: torch.device) -> Rejection | None:
    """The test items in a form that finds them in a stream; None if draws need no filter."""
    if not task.rejects_test_items:
        return None
    test = task.test_set()
    rows = HeldOut.of(test.tokens, test.scored, task.vocab_size)
    probe = task.draw(16_384, make_generator(0, "rejection probe"))
    share = len(rows.find(probe.tokens, probe.scored)) / len(probe)
    require(
        share < 0.9,
        f"{share:.0%} of the draws of {task} are test items: it has too few different items for a stream; enlarge it",
    )
    return Rejection(rows.to(device), share)


def token_accuracy(
    predictions: Int64[Tensor, "*seeds batch seq"], batch: Batch, mask: Bool[Tensor, "batch seq"]
) -> Float[Tensor, "*seeds"]:
    """The share of the masked positions that are predicted right."""
    right = (predictions == batch.targets) & mask
    return right.sum(dim=(-2, -1)).float() / mask.sum()


def exact_match(
    predictions: Int64[Tensor, "*seeds batch seq"], batch: Batch, mask: Bool[Tensor, "batch seq"]
) -> Float[Tensor, "*seeds"]:
    """The share of the sequences whose masked positions are all predicted right."""
    right = (predictions == batch.targets) | ~mask
    return right.all(dim=-1).float().mean(dim=-1)
