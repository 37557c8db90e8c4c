"""The contract check: it passes what is right and says in plain words what is wrong."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

import icecore as ice
from icecore.errors import InputError, require
from icecore.tasks import TASKS, Batch, Imitation, Task, find_task, make_task
from icecore.tasks.check import check_task

EXAMPLE = Path(__file__).parents[1] / "examples" / "reversal.py"


def problems(task: Task) -> list[str]:
    return [finding.problem for finding in check_task(lambda: task) if finding.problem is not None]


CHECKED = [
    (name, preset)
    for name, task in TASKS.items()
    for preset in (["released", "paper"] if task.presets["paper"] else ["released"])
    if name not in ("imitation", "language")
]


@pytest.mark.parametrize(("name", "preset"), CHECKED)
def test_shipped_tasks_keep_the_contract(name, preset):
    assert problems(make_task(name, preset)) == []


def test_imitation_with_a_target_keeps_the_contract():
    def target(tokens):
        return torch.nn.functional.one_hot(tokens[:, -1], 512).float().log_softmax(dim=-1)

    assert problems(Imitation(target=target)) == []


def test_the_example_keeps_the_contract():
    assert problems(find_task(f"{EXAMPLE}:Reversal")()) == []
    assert len(EXAMPLE.read_text().splitlines()) <= 45, "the example is meant to be read in a minute"


@dataclass(frozen=True)
class Copying(Task):
    """A right task, which each test below breaks in one place."""

    name: ClassVar[str] = "copying"

    @property
    def vocab_size(self) -> int:
        return 50

    @property
    def max_length(self) -> int:
        return 4

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        tokens = torch.randint(0, 50, (count, 4), generator=generator)
        scored = torch.zeros((count, 4), dtype=torch.bool)
        scored[:, 3] = True
        return Batch(tokens, tokens * scored, scored)

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 / 50}


def test_the_unbroken_task_has_no_problem():
    assert problems(Copying()) == []


class WrongShape(Copying):
    def draw(self, count, generator):
        return super().draw(count + 1, generator)


class TokenOutOfRange(Copying):
    def draw(self, count, generator):
        batch = super().draw(count, generator)
        return replace(batch, tokens=batch.tokens + 1)


class NothingScored(Copying):
    def draw(self, count, generator):
        batch = super().draw(count, generator)
        return replace(batch, scored=batch.scored & (batch.tokens[:, :1] > 10))


class RandomPadding(Copying):
    def draw(self, count, generator):
        batch = super().draw(count, generator)
        return replace(batch, scored=batch.scored.roll(-1, dims=1))


class HiddenRandomness(Copying):
    def draw(self, count, generator):
        return super().draw(count, torch.Generator().manual_seed(torch.seed() % 2**31))


class IgnoresItsSeed(Copying):
    def draw(self, count, generator):
        return super().draw(count, torch.Generator().manual_seed(0))


class TooSmall(Copying):
    def draw(self, count, generator):
        batch = super().draw(count, generator)
        return replace(batch, tokens=batch.tokens % 3)


class TrainsOnTestItems(Copying):
    def sample(self, count, generator):
        return self.test_set()


class FloorAboveOne(Copying):
    def baselines(self):
        return {"chance": 50.0}


class NoFloor(Copying):
    def baselines(self):
        return {}


class FloorBelowZero(Copying):
    def baselines(self):
        return {"chance": -0.1}


class NegativeToken(Copying):
    def draw(self, count, generator):
        batch = super().draw(count, generator)
        return replace(batch, tokens=batch.tokens - 1)


class OtherTypes(Copying):
    def draw(self, count, generator):
        batch = super().draw(count, generator)
        object.__setattr__(batch, "tokens", batch.tokens.int())  # as where types are not checked
        return batch


class NoMainAccuracy(Copying):
    def accuracies(self, predictions, batch):
        return {"right": torch.ones(len(predictions))}


class OneAccuracyForAllSeeds(Copying):
    def accuracies(self, predictions, batch):
        return {"accuracy": torch.ones(())}


class AccuracyOfNothing(Copying):
    def accuracies(self, predictions, batch):
        return {"accuracy": torch.full((len(predictions),), torch.nan)}


class LateError(Copying):
    def loss_baselines(self):
        raise RuntimeError("boom")


class FewItems(Copying):
    def items(self, batch):
        return super().items(batch)[1:]


class NamelessFloor(Copying):
    def baselines(self) -> Any:
        return {1: 0.5}


class HalfAToken(Copying):
    @property
    def vocab_size(self) -> Any:
        return 50.0


@dataclass(frozen=True)
class NoConfig(Copying):
    where: complex = 1j


class WrongTestSet(Copying):
    def test_set(self):
        batch = super().test_set()
        return replace(batch, targets=batch.targets + 50)


class PadsItsTestSetAtRandom(Copying):
    def test_set(self):
        batch = super().test_set()
        return replace(batch, scored=batch.scored.roll(-1, dims=1))


class OtherTestSetEachTime(Copying):
    def test_set(self):
        return self.draw(100, torch.Generator().manual_seed(torch.seed() % 2**31))


class NameOfAPath(Copying):
    name = "copying/twice"


class NothingReleased(Copying):
    presets: ClassVar = {"paper": {}}


class NoLength(Copying):
    @property
    def max_length(self):
        return 0


PARTS = {name: vars(Copying)[name] for name in ("vocab_size", "max_length", "draw", "baselines")}
Undecorated = type("Undecorated", (Task,), {**PARTS, "name": "undecorated"})
Nameless = type("Nameless", (Task,), PARTS)


class Raises(Copying):
    def draw(self, count, generator):
        raise RuntimeError("boom")


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (WrongShape, "shape (513, 4), must be (512, 4)"),
        (TokenOutOfRange, "tokens from 1 to 50, must be 0..49"),
        (NothingScored, "items with no scored position"),
        (RandomPadding, "fill them with one padding token"),
        (HiddenRandomness, "two draws with the same seed differ"),
        (IgnoresItsSeed, "different seeds are the same"),
        (TooSmall, "too few different items"),
        (TrainsOnTestItems, "training items are test items"),
        (FloorAboveOne, "must be in [0, 1], is 50.0"),
        (NoFloor, "at least one accuracy"),
        (FloorBelowZero, "must be in [0, 1], is -0.1"),
        (NegativeToken, "tokens from -1 to 48, must be 0..49"),
        (OtherTypes, "draw gives tokens of torch.int32, must be torch.int64"),
        (WrongTestSet, "test_set gives targets from 50 to 99, must be 0..49"),
        (PadsItsTestSetAtRandom, "fill them with one padding token"),
        (OtherTestSetEachTime, "two calls of test_set differ"),
        (NameOfAPath, "only letters, digits, - and _, not 'copying/twice'"),
        (NothingReleased, "presets must have 'released', has ['paper']"),
        (NoLength, "must be at least 1, are 50 and 0"),
        (Undecorated, "the class is not a dataclass"),
        (Nameless, "the class has no name"),
        (NoMainAccuracy, "accuracies must give a dict with 'accuracy' in it"),
        (OneAccuracyForAllSeeds, "a number for each seed, a tensor of shape (1,) here, and 'accuracy' is"),
        (AccuracyOfNothing, "'accuracy' of accuracies must be in [0, 1], is nan"),
        (LateError, "RuntimeError: boom, in test_contract.py line "),
        (FewItems, "items must give 8 of 8 rows, gives 7"),
        (NamelessFloor, "a baseline must have a name, not 1"),
        (HalfAToken, "must be whole numbers, are 50.0 and 4"),
        (NoConfig, "a setting cannot be saved in a config"),
        (Raises, "RuntimeError: boom, in test_contract.py line "),
    ],
)
def test_a_broken_task_is_told_what_is_wrong(broken, words):
    found = problems(broken())
    assert any(words in problem for problem in found), found


@pytest.mark.parametrize("broken", [HiddenRandomness, IgnoresItsSeed, OtherTestSetEachTime])
def test_a_task_that_its_seed_does_not_decide_is_not_trained(broken):
    with pytest.raises(InputError, match="breaks the contract"):
        ice.train(broken(), ice.Transformer(width=8), steps=1, batch=4, warmup_steps=0)


def test_a_task_that_cannot_be_hashed_is_told_so():
    class Thawed(Copying):
        __hash__ = None  # type: ignore[assignment]

    found = problems(Thawed())
    assert found == ["the task cannot be hashed: put @dataclass(frozen=True) above it, with fields of hashable types"]


def test_a_task_that_needs_too_much_memory_is_not_called_broken():
    class Huge(Copying):
        def draw(self, count, generator):
            return super().draw(2**50, generator)

    with pytest.raises(InputError, match="Huge: out of memory; take a smaller size"):
        problems(Huge())


def test_what_a_task_requires_is_told_in_its_own_words():
    class Picky(Copying):
        def draw(self, count, generator):
            require(count % 3 == 0, "count must be a multiple of 3")
            return super().draw(count, generator)

    assert problems(Picky()) == ["count must be a multiple of 3"]
    with pytest.raises(InputError, match=r"^letters and length must be at least 1$"):
        list(check_task(lambda: make_task(f"{EXAMPLE}:Reversal", "released", {"length": "0"})))


class Unheeding(Copying):
    """Draws the same rows whatever generator it gets, so that all of them are test items."""

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        return super().draw(count, torch.Generator().manual_seed(0))


def test_a_task_of_few_items_is_told_all_ways_out():
    ways = (
        "enlarge it, give it a smaller test_size, or make it a finite table, with train_set and test_split = 'separate'"
    )
    with pytest.raises(InputError, match=ways):
        TooSmall().sample(20, torch.Generator().manual_seed(0))


def test_a_stream_of_test_items_alone_comes_to_an_end():
    with pytest.raises(InputError, match="contain fewer than 20 items outside its test set"):
        Unheeding().sample(20, torch.Generator().manual_seed(0))
