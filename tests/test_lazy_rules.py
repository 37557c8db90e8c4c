"""Lazy rules and sensitivity, on tables of items written by hand."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from icecore.cli import main
from icecore.errors import InputError
from icecore.tasks import Batch, DecimalAddition, Item, Memorization, ModularAddition, Needle, Task, make_task
from icecore.tasks.lazy import lazy_rules, most_likely, numbered, strongest_baseline, strongest_lazy_rule
from icecore.tasks.sensitivity import measure_sensitivity

pytestmark = pytest.mark.shapes

EXAMPLE = Path(__file__).parents[1] / "examples" / "reversal.py"


@dataclass(frozen=True)
class Scripted(Task):
    """Items as they are written down: prompts with their answers, each answer token fed before the next."""

    train: tuple[Item, ...]
    test: tuple[Item, ...]

    name: ClassVar[str] = "scripted"
    test_split: ClassVar = "separate"

    @property
    def vocab_size(self) -> int:
        return 10

    @property
    def max_length(self) -> int:
        return 6

    def batch(self, items: Sequence[Item]) -> Batch:
        tokens = torch.zeros((len(items), 6), dtype=torch.int64)
        targets, scored = tokens.clone(), tokens.bool()
        for row, (prompt, answer) in enumerate(items):
            both = (*prompt, *answer)
            tokens[row, : len(both) - 1] = torch.tensor(both[:-1])
            for place, token in enumerate(answer, start=len(prompt) - 1):
                targets[row, place], scored[row, place] = token, True
        return Batch(tokens, targets, scored)

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        rows = torch.randint(len(self.train), (count,), generator=generator)
        return self.batch(self.train)[rows]

    def train_set(self) -> Batch:
        return self.batch(self.train)

    def test_set(self) -> Batch:
        return self.batch(self.test)


def scripted(train: Sequence[tuple], test: Sequence[tuple] | None = None) -> Scripted:
    """Return the task of these (prompt, answer) pairs; without test items, the training items are tested."""
    made = [tuple(Item(tuple(prompt), tuple(answer)) for prompt, answer in items) for items in (train, test or train)]
    return Scripted(*made)


def accuracy_of(task: Task, name: str) -> float:
    return {rule.name: rule.accuracy for rule in lazy_rules(task)}[name]


def test_most_likely_target_of_a_key_by_hand():
    keys = torch.tensor([0, 0, 0, 1, 1, 2, 0, 1, 3])  # the first six are fitted
    targets = torch.tensor([5, 5, 3, 2, 1, 0])
    assert most_likely(keys, targets).tolist() == [5, 1, -1], "of equally frequent ones the lowest; an unseen key"


def test_equal_features_have_equal_numbers():
    first, second = torch.tensor([-1, -1, 2, 2]), torch.tensor([7, 8, 7, 7])
    numbers = numbered(first, second).tolist()
    assert numbers[2] == numbers[3]
    assert len(set(numbers)) == 3


def test_constant_is_the_most_frequent_answer_of_training():
    task = scripted([((1,), (4,)), ((2,), (4,)), ((3,), (5,))], [((6,), (4,)), ((6,), (5,)), ((6,), (5,))])
    assert accuracy_of(task, "constant") == pytest.approx(1 / 3)


def test_position_tells_what_only_the_position_does():
    task = scripted([((1, 1), (2,)), ((1, 1, 1), (3,))])
    assert accuracy_of(task, "position") == 1.0
    assert accuracy_of(task, "last_token") == 0.5


def test_place_in_the_answer_tells_what_only_it_does():
    task = scripted([((1, 1), (2, 3, 4)), ((1, 1, 1), (2, 3, 4)), ((1,), (2, 3, 4))])
    assert accuracy_of(task, "place_in_answer") == 1.0
    assert accuracy_of(task, "position") < 1.0
    assert not any(rule.name.startswith("place") for rule in lazy_rules(scripted([((1,), (2, 3)), ((2,), (4, 3))])))


def test_position_and_previous_answer_token():
    """The second token follows from the first, and another one follows from it at the third place."""
    task = scripted([((1,), (2, 3, 2, 5)), ((1,), (4, 6, 4, 7))])
    assert accuracy_of(task, "position_and_last_token") == 7 / 8, "all but the first token, of which it knows one"
    assert accuracy_of(task, "position") == 4 / 8
    assert accuracy_of(task, "last_token") == 5 / 8


def test_last_tokens_back_off_to_fewer():
    exclusive = [((9, a, b), (a ^ b,)) for a in (0, 1) for b in (0, 1)]
    assert accuracy_of(scripted(exclusive), "last_token") == 0.5
    assert accuracy_of(scripted(exclusive), "last_2_tokens") == 1.0
    unseen = scripted([((1, 2), (5,)), ((3, 2), (5,)), ((3, 4), (6,))], [((7, 2), (5,)), ((7, 4), (6,))])
    assert accuracy_of(unseen, "last_2_tokens") == 1.0, "an unseen pair is answered by its last token"


def test_most_frequent_answer_in_the_context():
    train = [((1,), (1,)), ((2,), (2,)), ((3,), (3,))]
    test = [((9, 9, 9, 2, 3, 3), (3,)), ((2, 1, 1, 2), (2,)), ((9, 9, 1), (1,)), ((9, 9), (1,))]
    assert accuracy_of(scripted(train, test), "most_frequent_in_context") == 1.0
    rules = lazy_rules(scripted([((5,), (1,)), ((6,), (2,))]))
    assert "most_frequent_in_context" not in {rule.name for rule in rules}, "no answer is ever in a context"


def test_bag_of_symbols_finds_a_majority_in_any_order():
    """No other rule knows it: the last tokens are the same in both answers."""
    orders = [(0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 1, 0), (1, 0, 1), (0, 1, 1)]
    task = scripted([((*bits, 2, 2, 2), (5 + sum(bits) // 2,)) for bits in orders])
    assert accuracy_of(task, "bag_of_symbols") == 1.0
    assert strongest_lazy_rule(task).name == "bag_of_symbols"  # type: ignore[union-attr]


def test_needles_own_baseline_is_found_without_asking():
    """Two implementations agree on all 4,000 released items, ties included."""
    rule = strongest_lazy_rule(Needle())
    assert rule is not None
    assert (rule.name, rule.accuracy) == ("most_frequent_in_context", pytest.approx(0.17675, abs=5e-6))


def test_decimal_additions_own_baseline_is_found_without_asking():
    rule = strongest_lazy_rule(DecimalAddition())
    assert rule is not None
    assert rule.name == "position_and_last_token"
    assert rule.accuracy == pytest.approx(0.24641, abs=4 * 0.0013)  # four standard errors of 4,000 items


def test_rules_are_fitted_on_training_items_and_the_same_each_time():
    task = make_task("modular-addition", settings={"modulus": "11"})
    first = lazy_rules(task)
    lazy_rules.cache_clear()
    assert lazy_rules(task) == first
    assert accuracy_of(task, "last_2_tokens") < 0.5, "a table of the test items would know them all"


def test_tasks_without_lazy_rules_say_why():
    assert lazy_rules(Memorization(keys=4)) == ()
    assert "memorize" in str(Memorization.no_lazy_rules)
    assert strongest_baseline(Memorization(keys=4)) == ("chance", 0.25)


def test_a_task_needs_no_baselines_of_its_own():
    task = scripted([((1,), (2, 3)), ((4,), (5, 3))])
    assert task.baselines() == {"last_token": 1.0}
    assert strongest_baseline(task) == ("last_token", 1.0)


def test_exact_match_comes_with_longer_answers():
    task = scripted([((1,), (2, 3)), ((4,), (5, 3))])
    targets = task.test_set().targets
    one_wrong = targets.clone()
    one_wrong[0, 0] = 9
    accuracies = task.accuracies(torch.stack([targets, one_wrong]), task.test_set())
    assert accuracies["accuracy"].tolist() == [1.0, 0.75]
    assert accuracies["exact_match"].tolist() == [1.0, 0.5]
    assert scripted([((1,), (2,))]).metrics() == ["accuracy"]
    assert Needle().metrics() == ["accuracy"]


@pytest.mark.parametrize(
    ("task", "mean", "most"),
    [
        (ModularAddition(modulus=7), 2, 2),  # either summand changes the sum
        (Needle(max_pairs=1, values=9, vocabulary=12), 1, 1),  # only the value does
        (make_task("parity", settings={"length": "9"}), 9, 9),
    ],
    ids=str,
)
def test_sensitivity_by_hand(task, mean, most):
    found = measure_sensitivity(task)
    assert (found.mean, found.most) == (pytest.approx(mean), pytest.approx(most))


def test_sensitivity_of_each_answer_token():
    """The first token repeats the first symbol, the second one is the sum of both: 1 and 2, 1.5 on average."""

    class Sums(Scripted):
        def solve(self, prompt):
            return (prompt[0], sum(prompt) % 3)

    items = [((a, b), (a, (a + b) % 3)) for a in range(3) for b in range(3)]
    task = Sums(*[tuple(Item(*each) for each in items)] * 2)
    found = measure_sensitivity(task)
    assert found.mean == pytest.approx(1.5, abs=4 * found.error)
    assert found.most == 2
    assert 0 < found.error < 0.05


def test_without_solve_there_is_no_sensitivity():
    with pytest.raises(InputError, match=r"scripted has no method solve\(prompt\)"):
        measure_sensitivity(scripted([((1,), (2,)), ((3,), (2,))]))


def test_the_check_prints_the_rules_of_a_users_task(capsys):
    assert main(["tasks", "--check", f"{EXAMPLE}:Reversal"]) == 0
    printed = capsys.readouterr().out
    assert "validation items are neither test items nor trained on" in printed
    assert "most frequent in context" in printed
    assert main(["tasks", f"{EXAMPLE}:Reversal", "--letters", "4", "--json"]) == 0
    rules = json.loads(capsys.readouterr().out)["lazy_rules"]
    assert rules["constant"]["accuracy"] == pytest.approx(1 / 4, abs=0.03)  # ten standard errors of 4,000 items
    assert rules["constant"]["exact_match"] < 0.01


def test_a_difficulty_is_one_setting_under_one_name():
    needle = Needle(values=16, vocabulary=80)
    assert needle.difficulty == needle.max_pairs == 30
    assert needle.at_difficulty(4) == Needle(max_pairs=4, values=16, vocabulary=80)
    assert needle.at_difficulty("4") == needle.at_difficulty(4)
    with pytest.raises(InputError, match="scripted names no difficulty: add  difficulty_setting"):
        _ = scripted([((1,), (2,))]).difficulty
    with pytest.raises(InputError, match="a vocabulary of 80 has room for 31 markers"):
        needle.at_difficulty(1_000)


def test_a_task_that_a_lazy_rule_solves_is_told_so(capsys):
    assert main(["tasks", "needle", "--max-pairs", "1", "--test-items-in-stream", "true"]) == 0
    assert "the rule 'last 2 tokens' solves this task" in capsys.readouterr().out


def test_training_names_a_lazy_rule_that_beats_the_tasks_own_baselines(tmp_path, capsys):
    """Sorted digits: chance gets 10 %, a bag of symbols nearly everything."""
    quick = [
        "--width",
        "8",
        "--layers",
        "1",
        "--steps",
        "1",
        "--batch",
        "4",
        "--warmup-steps",
        "1",
        "--out",
        str(tmp_path),
    ]
    assert main(["train", "sorting", "--length", "4", "--test-size", "200", *quick]) == 0
    printed = capsys.readouterr().out
    assert "baselines: chance 0.1000" in printed
    assert "strongest lazy rule: bag of symbols 0.9" in printed
