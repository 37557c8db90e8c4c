"""Lazy rules of any task; the strongest is its baseline.

Each rule predicts an answer token from little: from its position, from the last tokens, or from which symbols have been
read, in whatever order. Rules are fitted on training items and scored on the test items.
"""

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from icecore.seeding import make_generator
from icecore.tasks.base import Task
from icecore.tasks.batch import Batch, ScoredTokens
from icecore.tasks.lazy_symbols import bag_of_symbols, most_frequent_in_context

FITTED_ITEMS = 20_000
FITTED_TOKENS = 2_000_000  # fewer items where they are long
FITTED_ANSWERS = 300_000  # answer tokens
LONGEST = 3  # last tokens that a rule looks at


class LazyRule(NamedTuple):
    """One rule with its accuracies on the test items."""

    name: str
    accuracies: dict[str, float]

    @property
    def accuracy(self) -> float:
        return self.accuracies["accuracy"]


Column = Int64[Tensor, " scored"]


@functools.lru_cache(maxsize=64)
def lazy_rules(task: Task) -> tuple[LazyRule, ...]:
    """Return every rule with its accuracy on the test items, the strongest first."""
    if task.no_lazy_rules is not None:
        return ()
    train, test = fitting_items(task), task.test_set()
    scored = test.scored_tokens
    found = []
    for name, guesses in all_guesses(task, train.scored_tokens, scored):
        predictions = torch.zeros_like(test.targets)
        predictions[scored.items, scored.positions] = guesses
        accuracies = task.accuracies(predictions[None], test)
        found.append(LazyRule(name, {key: float(value) for key, value in accuracies.items()}))
    return tuple(sorted(found, key=lambda rule: -rule.accuracy))  # stable: of equals, the simplest


def strongest_lazy_rule(task: Task) -> LazyRule | None:
    """Return the rule with the highest accuracy; None for a task to which lazy rules do not apply."""
    return next(iter(lazy_rules(task)), None)


def strongest_baseline(task: Task) -> tuple[str, float]:
    """Return name and accuracy of the best of the task's own baselines and of all lazy rules."""
    rule = strongest_lazy_rule(task)
    lazy = {} if rule is None else {rule.name: rule.accuracy}
    known = {**lazy, **task.baselines()} or {"nothing": 0.0}
    return max(known.items(), key=lambda each: each[1])


def fitting_items(task: Task) -> Batch:
    """Return the training items that rules are fitted on."""
    generator = make_generator(0, "lazy rules")
    count = max(1, min(FITTED_ITEMS, FITTED_TOKENS // task.max_length))
    train_set = task.train_set()
    if train_set is None:
        items = task.sample(count, generator)
    else:
        items = train_set[torch.randperm(len(train_set), generator=generator)[:count]]
    answers = items.scored.sum(dim=1).cumsum(dim=0)
    return items[: max(1, int((answers <= FITTED_ANSWERS).sum()))]


def all_guesses(task: Task, train: ScoredTokens, test: ScoredTokens) -> Iterator[tuple[str, Column]]:
    """Yield each rule's name and its guesses at the scored tokens of the test items."""
    targets = train.targets

    def by(*features: Int64[Tensor, " both"]) -> Column:
        return most_likely(numbered(*features), targets)

    def of_both(get: Callable[[ScoredTokens], Column]) -> Int64[Tensor, " both"]:
        return torch.cat([get(train), get(test)])

    nothing = of_both(lambda scored: torch.zeros_like(scored.items))
    position = of_both(lambda scored: scored.positions)
    place = of_both(lambda scored: scored.places)
    last = [of_both(functools.partial(token_before, back)) for back in range(LONGEST)]
    constant = by(nothing)
    yield "constant", constant
    where = {"position": position}
    if bool(place.any()) and not torch.equal(*map(numbered, (position, place))):
        where["place_in_answer"] = place  # tells more than the position where prompts differ in length
    for name, each in where.items():
        yield name, or_else(by(each), constant)
    guesses = constant
    # A rule that reads all of an item it was fitted on would not be lazy.
    longest = LONGEST if task.test_split != "none" else min(LONGEST, int(train.positions.min()))
    for length in range(1, longest + 1):
        guesses = or_else(by(*last[:length]), guesses)
        yield "last_token" if length == 1 else f"last_{length}_tokens", guesses
    for name, each in where.items():
        yield f"{name}_and_last_token", or_else(by(each, last[0]), constant)
    frequent = most_frequent_in_context(test, targets.unique(), task.vocab_size)
    if frequent is not None:
        yield "most_frequent_in_context", or_else(frequent, constant)
    by_symbols = bag_of_symbols(train, test, task.vocab_size)
    if by_symbols is not None:
        yield "bag_of_symbols", by_symbols


def token_before(back: int, scored: ScoredTokens) -> Column:
    """Return the token `back` positions before each scored one; the vocabulary has no -1, which is before the first."""
    position = scored.positions - back
    return torch.where(position >= 0, scored.tokens[scored.items, position.clamp(min=0)], -1)


def numbered(*features: Column) -> Column:
    """Return one number per combination of features: equal numbers where all features are equal."""
    number = features[0]
    for feature in features[1:]:
        number = number.unique(return_inverse=True)[1]
        number = number * (int(feature.max()) + 2) + feature + 1
    return number.unique(return_inverse=True)[1]


def most_likely(keys: Int64[Tensor, " fitted_and_asked"], targets: Int64[Tensor, " fitted"]) -> Int64[Tensor, " asked"]:
    """Fit on the first rows, whose targets are known, and return the guesses at the others; -1 for an unseen key.

    A guess is the most frequent target of a key; of equally frequent ones, the lowest.
    """
    count, kinds = len(targets), int(targets.max()) + 1
    pairs, times = (keys[:count] * kinds + targets).unique(return_counts=True)
    order = (times * kinds + (kinds - 1 - pairs % kinds)).argsort()  # the last one written wins
    guess = torch.full((int(keys.max()) + 1,), -1)
    for_key, target = pairs[order] // kinds, pairs[order] % kinds
    rank = torch.full_like(guess, -1).scatter_reduce(0, for_key, torch.arange(len(order)), "amax")
    seen = rank >= 0
    guess[seen] = target[rank[seen]]
    return guess[keys[count:]]


def or_else(guesses: Column, otherwise: Column) -> Column:
    """Return the guesses, with the other ones where a guess is missing."""
    return torch.where(guesses >= 0, guesses, otherwise)
