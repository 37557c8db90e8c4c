"""Sensitivity: how many input symbols change an answer token when each is changed alone.

SOURCE: Hahn & Rofin, arXiv 2402.09963: it predicts which functions transformers find hard to learn.
"""

import functools
import math
import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from icecore.errors import require
from icecore.seeding import make_generator
from icecore.tasks.base import Task

CHANGES = 4_000  # half of them find the most sensitive answer token, the other half measure it
ITEMS = 1_000
MOST_TRIES = 128  # per change: some changed prompts are no questions of the task

END = -1  # stands for an answer's missing tokens
Answer = tuple[int | None, ...]


class Sensitivity(NamedTuple):
    """The expected number of input symbols whose change changes an answer token."""

    mean: float  # over the answer tokens
    most: float  # sensitivity of the most sensitive answer token
    error: float  # standard error of the mean


@functools.lru_cache(maxsize=64)
def measure_sensitivity(task: Task, changes: int = CHANGES) -> Sensitivity:
    """Measure sensitivity on random items of a task that defines `solve`.

    A change replaces one symbol of the prompt by another that occurs at the same position in other prompts, so that
    the prompt remains a question of the task. A symbol without such another one cannot change the answer.
    """
    train_set = task.train_set()
    count = ITEMS if train_set is None else min(ITEMS, len(train_set))
    prompts = [item.prompt for item in task.items(task.draw(count, make_generator(0, "sensitivity")))]
    answers = [task.solve(prompt) for prompt in prompts]
    symbols = symbols_by_position(prompts)
    rng = random.Random(0)
    halves = (Effects(), Effects())
    for change in range(changes):
        index = rng.randrange(len(prompts))
        prompt, answer = prompts[index], answers[index]
        places = [place for place in range(len(prompt)) if len(symbols[place]) > 1]
        require(answer is not None and bool(places), f"solve of {task.name} does not answer one of its own prompts")
        changed = changed_answer(task, prompt, rng.choice(places), symbols, rng)
        halves[change % 2].add(len(places), different_places(answer or (), changed))
    first, second = halves
    per_change = first.per_change + second.per_change
    variance = statistics.pvariance(per_change)
    mean = (sum(first.sums) + sum(second.sums)) / (sum(first.seen) + sum(second.seen))
    return Sensitivity(mean, max(mean, second.mean_of(first.highest)), math.sqrt(variance / len(per_change)))


class Effects:
    """Effect of changes on each answer token."""

    def __init__(self) -> None:
        self.sums: list[float] = []  # per answer token: changed symbols, were all of them changed in turn
        self.seen: list[int] = []  # per answer token: changes
        self.per_change: list[float] = []

    def add(self, symbols: int, differs: Sequence[bool | None]) -> None:
        """Count a change to one of `symbols` symbols; None stands for a token that is not scored."""
        for place, differ in enumerate(differs):
            if place == len(self.sums):
                self.sums.append(0.0)
                self.seen.append(0)
            if differ is not None:
                self.sums[place] += symbols * differ
                self.seen[place] += 1
        known = [differ for differ in differs if differ is not None]
        if known:
            self.per_change.append(symbols * sum(known) / len(known))

    @property
    def highest(self) -> int:
        """Return the most sensitive of the answer tokens that most changes could change."""
        often = [place for place, times in enumerate(self.seen) if times >= max(self.seen) / 2]
        return max(often, key=self.mean_of)

    def mean_of(self, place: int) -> float:
        return self.sums[place] / max(1, self.seen[place])


def changed_answer(
    task: Task, prompt: tuple[int, ...], place: int, symbols: Sequence[Sequence[int]], rng: random.Random
) -> Answer:
    """Return the answer after changing one token; unchanged if no other token makes a valid prompt."""
    others = [token for token in symbols[place] if token != prompt[place]]
    for token in rng.sample(others, min(MOST_TRIES, len(others))):
        answer = task.solve((*prompt[:place], token, *prompt[place + 1 :]))
        if answer is not None:
            return answer
    return task.solve(prompt) or ()


def symbols_by_position(prompts: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """Return the tokens that occur at each position of any prompt."""
    found: list[set[int]] = [set() for _ in range(max(map(len, prompts)))]
    for prompt in prompts:
        for place, token in enumerate(prompt):
            found[place].add(token)
    return [sorted(tokens) for tokens in found]


def different_places(first: Answer, second: Answer) -> list[bool | None]:
    """Tell which tokens of the first answer differ in the second; None where it scores none."""
    others = (*second, *[END] * (len(first) - len(second)))
    return [
        None if other is None else one != other for one, other in zip(first, others, strict=False) if one is not None
    ]
