"""Check a task against the contract, rule by rule."""

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from icecore.errors import InputError, is_out_of_memory, require
from icecore.seeding import make_generator
from icecore.tasks.base import Task
from icecore.tasks.batch import Batch
from icecore.tasks.holdout import HeldOut
from icecore.tasks.loading import setting_fields
from icecore.user_code import is_file, with_line

DRAWN = 512  # items drawn per check
STREAMED = 20_000  # training items searched for test items
SOLVED = 32  # items answered by the plain reference


@dataclass(frozen=True)
class Finding:
    """One rule and its violation; `problem` is None if the rule holds."""

    rule: str
    problem: str | None


def check_task(make: Callable[[], Task], is_whole: bool = True) -> Iterator[Finding]:
    """Check the contract rule by rule; stop if a broken rule makes the others meaningless.

    If not `is_whole`, check only the rules that every command needs.
    """
    try:
        task = make()
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        yield Finding("the class can be made with its defaults", problem_of(error))
        return
    yield Finding("the class can be made with its defaults", None)
    for rule, find_problem in RULES.items():
        if not is_whole and find_problem not in NEEDED:
            continue
        try:
            problem = find_problem(task)
        except (Exception, SystemExit) as error:  # user code: any exception is a finding, not a crash
            require(not is_out_of_memory(error), f"{type(task).__name__}: out of memory; take a smaller size")
            problem = problem_of(error)
        yield Finding(rule, problem)
        if problem is not None and rule in REQUIRED_BY_THE_REST:
            return


def require_task(make: Callable[[], Task], called: str) -> Task:
    """Return the task; raise if it breaks a rule that every command needs."""
    made: list[Task] = []

    def remembered() -> Task:
        made.append(make())
        return made[0]

    for finding in check_task(remembered, is_whole=False):
        if finding.problem is not None:
            way_out = f"see icecore tasks --check {called}" if is_file(called) else "fix the task"
            raise InputError(f"{called} breaks the contract ({finding.rule}): {finding.problem}; {way_out}")
    return made[0]


def problem_of(error: BaseException) -> str:
    return " ".join(str(error).split()) if isinstance(error, InputError) else with_line(error)


def drawn(task: Task, seed: int = 0) -> Batch:
    return task.draw(draws_of(task), make_generator(seed, "check"))


def draws_of(task: Task) -> int:
    """Return how many items to draw: DRAWN, or all of a smaller training set."""
    train = task.train_set()
    return DRAWN if train is None else min(DRAWN, len(train))


def has_a_config(task: Task) -> str | None:
    from icecore.tasks import TASKS

    if not isinstance(getattr(type(task), "name", None), str):
        return "the class has no name: add  name: ClassVar[str] = '...'"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", task.name):
        return f"its name is also a folder name: use only letters, digits, - and _, not '{task.name}'"
    if task.source_text is not None and task.name in TASKS:
        return f"'{task.name}' is a task of icecore, whose training settings it would get: choose another name"
    if not dataclasses.is_dataclass(task):
        return "the class is not a dataclass: put @dataclass(frozen=True) above it"
    try:
        hash(task)
    except TypeError:
        return "the task cannot be hashed: put @dataclass(frozen=True) above it, with fields of hashable types"
    try:
        json.dumps({field.name: getattr(task, field.name) for field in setting_fields(type(task))})
    except (TypeError, ValueError) as error:
        return f"a setting cannot be saved in a config ({error}): use a number, a string, or a tuple of these"
    if "released" not in task.presets:
        return f"presets must have 'released', has {sorted(task.presets)}"
    if type(task.vocab_size) is not int or type(task.max_length) is not int:
        return f"vocab_size and max_length must be whole numbers, are {task.vocab_size!r} and {task.max_length!r}"
    if task.vocab_size < 1 or task.max_length < 1:
        return f"vocab_size and max_length must be at least 1, are {task.vocab_size} and {task.max_length}"
    return None


def of_all_batches(find_problem: Callable[[Task, Batch, int], str | None]) -> Callable[[Task], str | None]:
    """Turn a rule for batches into a rule for tasks: check draws, test set and any training set."""

    def rule(task: Task) -> str | None:
        looked_at = {"draw": (drawn(task), draws_of(task))}
        for where, batch in (("test_set", task.test_set()), ("train_set", task.train_set())):
            if batch is not None:
                looked_at[where] = (batch, len(batch))
        for where, (batch, rows) in looked_at.items():
            problem = find_problem(task, batch, rows)
            if problem is not None:
                return f"{where} gives {problem}"
        return None

    return rule


def other_shapes(task: Task, batch: Batch, rows: int) -> str | None:
    wanted = (rows, task.max_length)
    for part in ("tokens", "targets", "scored"):
        tensor = getattr(batch, part)
        dtype = torch.bool if part == "scored" else torch.int64
        if tuple(tensor.shape) != wanted:
            return f"{part} of shape {tuple(tensor.shape)}, must be {wanted} (items, max_length)"
        if tensor.dtype != dtype:
            return f"{part} of {tensor.dtype}, must be {dtype}"
    return None


def other_tokens(task: Task, batch: Batch, _rows: int) -> str | None:
    for part in ("tokens", "targets"):
        low, high = (int(bound) for bound in getattr(batch, part).aminmax())
        if low < 0 or high >= task.vocab_size:
            return f"{part} from {low} to {high}, must be 0..{task.vocab_size - 1} (vocab_size {task.vocab_size})"
    return None


def unscored_items(_task: Task, batch: Batch, _rows: int) -> str | None:
    empty = (~batch.scored.any(dim=1)).nonzero()[:, 0]
    if len(empty) > 0:
        return f"{len(empty)} of {len(batch)} items with no scored position (item {int(empty[0])})"
    return None


def checked_sample(task: Task, count: int, generator: torch.Generator) -> Batch:
    """Call `task.sample`, and explain how a user's task breaks the contract during training."""
    if task.source_text is None:
        return task.sample(count, generator)
    try:
        batch = task.sample(count, generator)
        for find_problem in BATCH_RULES.values():
            problem = find_problem(task, batch, count)
            require(problem is None, f"sample gives {problem}")
        return batch
    except (Exception, SystemExit) as error:  # user code, as above
        if is_out_of_memory(error):
            raise
        raise InputError(f"{task.name} breaks its contract in training: {problem_of(error)}; fix the task") from error


def pads_with_one_token(task: Task) -> str | None:
    batch = Batch.concatenate([drawn(task), task.test_set()])
    position = torch.arange(task.max_length)
    padding = batch.tokens[position >= batch.lengths[:, None]].unique()
    if len(padding) > 1:
        return (
            f"positions after the last scored one hold {len(padding)} different tokens "
            f"({padding[:4].tolist()}...); fill them with one padding token"
        )
    return None


def is_deterministic(task: Task) -> str | None:
    first, again, other = drawn(task, 0), drawn(task, 0), drawn(task, 1)
    if not all(torch.equal(a, b) for a, b in zip(first.parts(), again.parts(), strict=True)):
        return "two draws with the same seed differ: use the generator argument for every random number"
    if torch.equal(first.tokens, other.tokens):
        return "two draws with different seeds are the same: use the generator argument"
    first, again = task.test_set(), task.test_set()
    if not all(torch.equal(a, b) for a, b in zip(first.parts(), again.parts(), strict=True)):
        return "two calls of test_set differ: it must be fixed"
    return None


def keeps_test_items_out(task: Task) -> str | None:
    if task.test_split == "none":
        return None
    test = task.test_set()
    held_out = HeldOut.of(test.tokens, test.scored, task.vocab_size)
    train = task.train_set()
    if train is None:
        train = task.sample(STREAMED, make_generator(0, "check stream"))
    found = held_out.find(train.tokens, train.scored)
    if len(found) > 0:
        return f"{len(found)} of {len(train)} training items are test items (test_split is '{task.test_split}')"
    return None


def has_validation_items(task: Task) -> str | None:
    if task.test_split == "none" or task.name == "language":
        return None
    test, validation = task.test_set(), task.validation_set()
    held_out = HeldOut.of(validation.tokens, validation.scored, task.vocab_size)
    both = len(held_out.find(test.tokens, test.scored))
    if both > 0:
        return f"{both} of {len(test)} test items are validation items, on which rates are chosen"
    reduced = task.without_validation()
    train = reduced.train_set()
    if train is None:
        train = reduced.sample(DRAWN, make_generator(0, "check validation"))
    found = len(held_out.find(train.tokens, train.scored))
    return f"{found} of {len(train)} training items are validation items" if found > 0 else None


def names_its_difficulty(task: Task) -> str | None:
    setting = task.difficulty_setting
    if setting is None:
        return None
    settings = [field.name for field in setting_fields(type(task))]
    if setting not in settings:
        return f"difficulty_setting must be one of its settings ({', '.join(settings)}), is {setting!r}"
    for value in task.difficulties:
        made = task.at_difficulty(value)
        if made.difficulty != value:
            return f"a task of difficulty {value!r} has the difficulty {made.difficulty!r}"
    return None


def solves_its_items(task: Task) -> str | None:
    """Compare the plain reference with the sampler, where a task has one."""
    if type(task).solve is Task.solve:
        return None
    for prompt, answer in task.items(drawn(task)[:SOLVED]):
        found = task.solve(prompt)
        if found is None or tuple(token for token in found if token is not None) != answer:
            return f"solve answers {list(prompt)} with {found}, draw with {answer}"
    return None


def has_baselines(task: Task) -> str | None:
    baselines = task.baselines()
    if not isinstance(baselines, dict) or not baselines:
        return "baselines must name at least one accuracy that needs no learning, such as {'chance': 0.1}"
    for name, value in baselines.items():
        if not isinstance(name, str):
            return f"a baseline must have a name, not {name!r}"
        if not isinstance(value, float | int) or not 0 <= value <= 1:
            return f"baseline '{name}' must be in [0, 1], is {value}"
    return None


def measures_answers(task: Task) -> str | None:
    """Score correct answers now: errors after training come too late to fix."""
    test = task.test_set()
    few = test[: min(len(test), 8)]
    found = task.accuracies(few.targets[None], few)
    if not isinstance(found, dict) or "accuracy" not in found:
        return "accuracies must give a dict with 'accuracy' in it"
    for name, value in found.items():
        if not isinstance(value, torch.Tensor) or value.shape != (1,):
            return (
                f"accuracies must give a number for each seed, a tensor of shape (1,) here, and '{name}' is {value!r}"
            )
        if not 0 <= float(value) <= 1:
            return f"'{name}' of accuracies must be in [0, 1], is {float(value)} where every answer is right"
    for what, numbers in (("loss_baselines", task.loss_baselines()), ("loss_units", task.loss_units(few))):
        if not isinstance(numbers, dict) or not all(isinstance(value, float | int) for value in numbers.values()):
            return f"{what} must give a dict of numbers, gives {numbers!r}"
    items = task.items(few)
    if len(items) != len(few):
        return f"items must give {len(few)} of {len(few)} rows, gives {len(items)}"
    return None


BATCH_RULES: dict[str, Callable[[Task, Batch, int], str | None]] = {
    "batches have the right shapes and types": other_shapes,
    "tokens and targets are in the vocabulary": other_tokens,
    "every item has a scored position": unscored_items,
}
REQUIRED_BY_THE_REST: dict[str, Callable[[Task], str | None]] = {
    "it is a frozen dataclass with a name, presets and sizes": has_a_config,
    **{rule: of_all_batches(find_problem) for rule, find_problem in BATCH_RULES.items()},
}
RULES: dict[str, Callable[[Task], str | None]] = {
    **REQUIRED_BY_THE_REST,
    "padding is one token": pads_with_one_token,
    "a seed decides the draws, and the test set is fixed": is_deterministic,
    "test items are not in the training data": keeps_test_items_out,
    "validation items are neither test items nor trained on": has_validation_items,
    "its difficulty, if it names one, is a setting": names_its_difficulty,
    "solve, if there is one, answers as draw does": solves_its_items,
    "baselines are in [0, 1]": has_baselines,
    "accuracies, losses and items are computed": measures_answers,
}
# Rules that every command needs.
NEEDED = (*REQUIRED_BY_THE_REST.values(), is_deterministic, has_baselines, measures_answers)
