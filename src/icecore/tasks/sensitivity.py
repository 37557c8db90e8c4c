"""Sensitivity: how many input symbols change an answer token when each is changed alone.

SOURCE: Hahn & Rofin, arXiv 2402.09963: it predicts which functions transformers find hard to learn.
"""

import functools
import math
import random
from collections.abc import Sequence
from typing import NamedTuple

from icecore.errors import require
from icecore.seeding import make_generator
from icecore.tasks.base import Task

CHANGES = 2_000  # for a standard error of about a fortieth of the number of symbols
ITEMS = 1_000
MOST_TRIES = 20  # per change: some changed prompts are no questions of the task
FEWEST = 100  # changes that an answer token must have seen to count for the maximum

Answer = tuple[int | None, ...]


class Sensitivity(NamedTuple):
    """The expected number of input symbols whose change changes an answer token."""

    mean: float  # over the answer tokens
    most: float  # of the most sensitive answer token
    error: float  # standard error of the mean


@functools.lru_cache(maxsize=64)
def measure_sensitivity(task: Task, changes: int = CHANGES) -> Sensitivity:
    """Measure sensitivity on random items of a task that defines `solve`.

    A change replaces one symbol of the prompt by another that occurs at the same position in other prompts. Changed
    prompts that are no questions of the task do not count.
    """
    train_set = task.train_set()
    count = ITEMS if train_set is None else min(ITEMS, len(train_set))
    prompts = [item.prompt for item in task.items(task.draw(count, make_generator(0, "sensitivity")))]
    answers = [task.solve(prompt) for prompt in prompts]
    symbols = symbols_by_position(prompts)
    rng = random.Random(0)
    sums: list[float] = []  # per answer token: changed symbols, and changes that it has seen
    seen: list[int] = []
    per_change: list[float] = []
    for _ in range(changes * MOST_TRIES):
        index = rng.randrange(len(prompts))
        prompt, answer = prompts[index], answers[index]
        places = [place for place in range(len(prompt)) if len(symbols[place]) > 1]
        require(answer is not None and bool(places), f"solve of {task.name} does not answer one of its own prompts")
        changed = task.solve(one_changed(prompt, rng.choice(places), symbols, rng))
        if changed is None:
            continue
        differs = different_places(answer or (), changed)
        for place, differ in enumerate(differs):
            if place == len(sums):
                sums.append(0.0)
                seen.append(0)
            if differ is not None:
                sums[place] += len(places) * differ
                seen[place] += 1
        known = [differ for differ in differs if differ is not None]
        if known:
            per_change.append(len(places) * sum(known) / len(known))
        if len(per_change) == changes:
            break
    require(bool(per_change), f"no changed prompt of {task.name} is a question of the task, by its solve")
    of_token = [total / times for total, times in zip(sums, seen, strict=True) if times >= min(FEWEST, max(seen))]
    mean = sum(sums) / sum(seen)
    variance = sum((each - mean) ** 2 for each in per_change) / max(1, len(per_change) - 1)
    return Sensitivity(mean, max(of_token), math.sqrt(variance / len(per_change)))


def symbols_by_position(prompts: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """Return the tokens that occur at each position of any prompt."""
    found: list[set[int]] = [set() for _ in range(max(map(len, prompts)))]
    for prompt in prompts:
        for place, token in enumerate(prompt):
            found[place].add(token)
    return [sorted(tokens) for tokens in found]


def one_changed(
    prompt: tuple[int, ...], place: int, symbols: Sequence[Sequence[int]], rng: random.Random
) -> tuple[int, ...]:
    """Return the prompt with another token at a place."""
    others = [token for token in symbols[place] if token != prompt[place]]
    return (*prompt[:place], rng.choice(others), *prompt[place + 1 :])


def different_places(first: Answer, second: Answer) -> list[bool | None]:
    """Tell at which places two answers differ; None where one of them is not scored."""
    common = [None if None in (one, other) else one != other for one, other in zip(first, second, strict=False)]
    return [*common, *[True] * abs(len(first) - len(second))]
