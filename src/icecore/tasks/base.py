"""Base class of tasks: training data without test items, test set, baselines, difficulty."""

import abc
import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from icecore.errors import InputError, require
from icecore.seeding import make_generator
from icecore.tasks.batch import Batch, Item, Rows
from icecore.tasks.holdout import HeldOut

MOST_DRAWS = 50  # limit, as a multiple of the expected draws; a task that needs more has too few items
# Metadata of a setting that is a location, not content: not part of a run's identity.
WHERE = {"where": True}


class Coordinates(NamedTuple):
    """Theory's coordinates of a task. The fourth coordinate is measured: `icecore.tasks.sensitivity`."""

    rounds: int | None  # rounds of attention that suffice in theory; None if not known
    symbols: int  # input symbols to be kept apart
    circuit_class: str | None = None  # the smallest known one, as the items become longer


class Task(abc.ABC):
    """Base class of a task. Subclass it as a frozen dataclass of its settings.

    Define `name`, `vocab_size`, `max_length` and `draw`. By default, a test set is drawn and dropped from the
    training data. For a fixed data set, override `train_set` as well.
    """

    name: ClassVar[str]  # as on the command line
    version: ClassVar[int] = 1  # increment it when the same settings give other items
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"released": {}, "paper": {}}
    source_file: ClassVar[str | None] = None  # the file that a user's task was loaded from
    source_text: ClassVar[str | None] = None  # the text of that file
    test_size: int = 4000  # a task may make it a setting
    # rejected: draws may contain test items, `sample` drops them; separate: draws never contain any;
    # none: nothing is held out, accuracy is measured on training items.
    test_split: ClassVar[Literal["rejected", "separate", "none"]] = "rejected"
    difficulty_setting: ClassVar[str | None] = None  # the setting that makes the task harder, if one does
    difficulties: ClassVar[tuple[Any, ...]] = ()  # values of it worth a try, the easiest first
    no_lazy_rules: ClassVar[str | None] = None  # why lazy rules (`icecore.tasks.lazy`) make no sense here, if so

    def __init_subclass__(cls, **settings: Any) -> None:
        """Clear the source: a Python subclass must not inherit its parent's file."""
        super().__init_subclass__(**settings)
        cls.source_file = cls.source_text = None

    @property
    @abc.abstractmethod
    def vocab_size(self) -> int:
        """Return the number of tokens: they are 0 to vocab_size - 1."""

    @property
    @abc.abstractmethod
    def max_length(self) -> int:
        """Return the maximum number of tokens fed to a model: the width of `Batch.tokens`."""

    @abc.abstractmethod
    def draw(self, count: int, generator: torch.Generator) -> Batch:
        """Draw `count` items on the generator's device, with tensor operations.

        Test items may be among them: `sample` drops them.
        """

    def draw_compact(self, count: int, generator: torch.Generator) -> Rows:
        """Draw in a compact form, if the task has one: finding and replacing test items costs less there."""
        return self.draw(count, generator)

    def baselines(self) -> dict[str, float]:
        """Return accuracies that need no learning, by name. Override it with what only this task's author knows.

        By default it is the strongest lazy rule, which takes a second or two.
        """
        from icecore.tasks.lazy import strongest_lazy_rule

        rule = strongest_lazy_rule(self)
        return {} if rule is None else {rule.name: rule.accuracy}

    @property
    def difficulty(self) -> Any:
        """Return the value of the difficulty setting."""
        return getattr(self, difficulty_setting_of(self))

    def at_difficulty(self, value: Any) -> "Task":
        """Return this task with another difficulty; a string is parsed, as on the command line."""
        from icecore.tasks.loading import parsed

        settings = parsed(type(self), {difficulty_setting_of(self): value})
        return dataclasses.replace(self, **settings)  # type: ignore[type-var]

    def coordinates(self) -> Coordinates | None:
        """Return where theory places the task, if known."""
        return None

    def solve(self, _prompt: tuple[int, ...], /) -> tuple[int | None, ...] | None:
        """Return the answer to a prompt, as in `items`; None for a prompt that is no question of this task.

        A plain reference: the sampler is tested against it, and sensitivity is measured with it. Answer tokens that
        are not scored are None.
        """
        raise InputError(f"{self.name} has no method solve(prompt), which answers any prompt")

    def loss_units(self, _batch: "Batch", /) -> dict[str, float]:
        """Return factors that convert this batch's loss to other units, by name."""
        return {}

    @property
    def rejects_test_items(self) -> bool:
        """Tell whether `sample` drops test items."""
        return self.test_split == "rejected"

    def loss_baselines(self) -> dict[str, float]:
        """Return losses that need no learning, by name, for tasks judged by loss."""
        return {}

    def train_set(self) -> Batch | None:
        """Return all training items in order if there are finitely many, else None."""
        return None

    def train_count(self) -> int | None:
        """Return the number of training items if there are finitely many, else None."""
        train_set = self.train_set()
        return None if train_set is None else len(train_set)

    def test_set(self) -> Batch:
        """Return the fixed items that accuracy is measured on, on the CPU."""
        return self.draw(self.test_size, make_generator(0, "test"))

    def validation_set(self) -> Batch:
        """Return fixed items on which rates and widths are chosen; none is a test item.

        `without_validation` does not train on them.
        """
        from icecore.tasks.validation import drawn_validation_set

        return drawn_validation_set(self)

    def without_validation(self) -> "Task":
        """Return this task with training data that lack the validation items too."""
        from icecore.tasks.validation import without_validation

        return without_validation(self)

    def items(self, batch: Batch) -> list[Item]:
        """Return the items without padding: a prompt ends at the first scored position."""
        tokens, targets, scored = (part.tolist() for part in (batch.tokens, batch.targets, batch.scored))
        return [
            Item(tuple(row[: mask.index(True) + 1]), tuple(t for t, m in zip(goal, mask, strict=True) if m))
            for row, goal, mask in zip(tokens, targets, scored, strict=True)
        ]

    def read(self, text: str) -> tuple[int, ...]:
        """Parse a prompt in the task's notation; by default, token ids separated by spaces."""
        words = text.split()
        require(
            bool(words) and all(word.isdecimal() for word in words),
            f"{self.name} reads token ids, as in '3 4', not '{text}'",
        )
        return self.checked_prompt(tuple(map(int, words)))

    def words(self, tokens: Sequence[int]) -> list[str]:
        """Return the tokens in the task's notation."""
        return [str(token) for token in tokens]

    def answer_words(self, tokens: Sequence[int]) -> list[str]:
        """Return tokens in the task's notation where they are answers, such as yes and no."""
        return self.words(tokens)

    def checked_prompt(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        unknown = [token for token in tokens if not 0 <= token < self.vocab_size]
        require(not unknown, f"{self.name} has the tokens 0 to {self.vocab_size - 1}, not {unknown}")
        require(
            len(tokens) <= self.max_length,
            f"a prompt of {self.name} has at most {self.max_length} tokens, got {len(tokens)}",
        )
        return tokens

    def test_items(self) -> list[Item]:
        return self.items(self.test_set())

    def sample(self, count: int, generator: torch.Generator) -> Batch:
        """Sample `count` training items: independent draws, with exactly the test items dropped."""
        require_count(count)
        held_out = held_out_of(self, generator.device)
        if held_out is None:
            return self.draw(count, generator)
        # Extra rows replace test items among the first `count`: draws are independent, so any row will do.
        # If there are too few, draw more.
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
                f"{len(drawn):,} draws of {self.name} contain fewer than {count:,} items outside its test set; "
                "draw with the generator argument, or enlarge the task",
            )
            more = self.draw_compact(count, generator)
            drawn = type(drawn)(*map(torch.cat, zip(drawn.parts(), more.parts(), strict=True)))
        # Copy: the drawn tensors may be views of the task's own data.
        parts = (part.index_copy(0, to_replace, part.index_select(0, stand_ins)) for part in drawn.parts())
        return type(drawn)(*(part[:count] for part in parts)).expand(self.max_length)

    def accuracies(
        self, predictions: Int64[Tensor, "*seeds batch seq"], batch: Batch
    ) -> dict[str, Float[Tensor, "*seeds"]]:
        """Return named accuracies of `predictions`, one per leading index; `accuracy` is the main one.

        Where items have several scored tokens, `exact_match` is another.
        """
        accuracies = {"accuracy": token_accuracy(predictions, batch, batch.scored)}
        if has_long_answers(self):
            accuracies["exact_match"] = exact_match(predictions, batch, batch.scored)
        return accuracies

    def metrics(self) -> list[str]:
        """Return the names of the accuracies."""
        item = self.test_set()[:1]
        return list(self.accuracies(item.targets[None], item))


def difficulty_setting_of(task: Task) -> str:
    if task.difficulty_setting is None:
        raise InputError(
            f"{task.name} names no difficulty: add  difficulty_setting: ClassVar = 'SETTING'  to its class"
        )
    return task.difficulty_setting


@functools.lru_cache(maxsize=64)
def has_long_answers(task: Task) -> bool:
    """Tell whether items have more than one scored token."""
    return bool((task.test_set().scored.sum(dim=1) > 1).any())


def require_count(count: int) -> None:
    require(count >= 1, f"the number of items must be at least 1, got {count}")


@dataclass(frozen=True, eq=False)
class Rejection:
    """Test items that `sample` drops, and their approximate share of draws."""

    rows: HeldOut
    share: float


@functools.lru_cache(maxsize=64)
def held_out_of(task: Task, device: torch.device) -> Rejection | None:
    """Return the filter for test items; None if draws need no filter."""
    if not task.rejects_test_items:
        return None
    test = task.test_set()
    rows = HeldOut.of(test.tokens, test.scored, task.vocab_size)
    probe = task.draw(16_384, make_generator(0, "rejection probe"))
    share = len(rows.find(probe.tokens, probe.scored)) / len(probe)
    require(
        share < 0.9,
        f"{share:.0%} of the draws of {task} are test items: it has too few different items to train on; enlarge it, "
        "give it a smaller test_size, or make it a finite table, with train_set and test_split = 'separate'",
    )
    return Rejection(rows.to(device), share)


def token_accuracy(
    predictions: Int64[Tensor, "*seeds batch seq"], batch: Batch, mask: Bool[Tensor, "batch seq"]
) -> Float[Tensor, "*seeds"]:
    """Return the share of masked positions predicted correctly."""
    right = (predictions == batch.targets) & mask
    return right.sum(dim=(-2, -1)).float() / mask.sum()


def exact_match(
    predictions: Int64[Tensor, "*seeds batch seq"], batch: Batch, mask: Bool[Tensor, "batch seq"]
) -> Float[Tensor, "*seeds"]:
    """Return the share of sequences with all masked positions predicted correctly."""
    right = (predictions == batch.targets) | ~mask
    return right.all(dim=-1).float().mean(dim=-1)
