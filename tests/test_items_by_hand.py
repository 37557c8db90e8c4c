"""Small items worked out by hand: what is fed, what is predicted, what is scored."""

import pytest
import torch

from icecore.tasks import DecimalAddition, Imitation, Item, ModularAddition, Needle, Parentheses
from icecore.tasks.parentheses import is_balanced

pytestmark = pytest.mark.shapes


def test_needle_as_in_the_papers_appendix():
    item = Item((128, 1, 129, 2, 130, 3, 131, 4, 159), (2,))
    batch = Needle().encode([item])
    assert batch.tokens.shape == (1, 61)
    assert batch.tokens[0, :9].tolist() == list(item.prompt)
    assert batch.scored.nonzero().tolist() == [[0, 8]]
    assert batch.targets[0, 8] == 2
    assert batch.lengths.tolist() == [9]


def test_needle_query_is_the_marker_itself_in_the_papers_text():
    task = Needle(**Needle.presets["paper"])
    for prompt, answer in task.test_items()[:200]:
        pairs = dict(zip(prompt[:-1:2], prompt[1:-1:2], strict=True))
        assert answer == (pairs[prompt[-1]],)
    assert {token for item in task.test_items() for token in item.prompt[:-1:2]} == set(range(128, 159))


ADDITION = Item((9, 3, 10, 1, 7, 11), (20, 21, 21, 30))  # 39 + 71 = 110
SHORT_ADDITION = Item((9, 3, 10, 1, 1, 11), (20, 25, 30))  # 39 + 11 = 50


def test_released_addition_never_scores_the_first_digit_and_once_the_padding():
    batch = DecimalAddition(digits=2).encode([ADDITION, SHORT_ADDITION])
    assert batch.tokens.tolist() == [[9, 3, 10, 1, 7, 11, 20, 21, 21], [9, 3, 10, 1, 1, 11, 20, 25, 30]]
    assert batch.scored.nonzero()[:, 1].tolist() == [6, 7, 8, 6, 7, 8]
    assert batch.targets[:, 6:].tolist() == [[21, 21, 30], [25, 30, 12]]


def test_papers_addition_scores_the_digits():
    batch = DecimalAddition(digits=2, scored="target-is-digit").encode([ADDITION, SHORT_ADDITION])
    assert batch.tokens.tolist() == [[9, 3, 10, 1, 7, 11, 20, 21, 12], [9, 3, 10, 1, 1, 11, 20, 12, 12]]
    assert batch.scored.nonzero().tolist() == [[0, 5], [0, 6], [0, 7], [1, 5], [1, 6]]
    assert batch.targets[batch.scored].tolist() == [20, 21, 21, 20, 25]


def test_addition_reports_three_accuracies():
    task = DecimalAddition(digits=2)
    batch = task.encode([ADDITION, SHORT_ADDITION])
    perfect = batch.targets.clone()
    wrong_padding, wrong_digit = perfect.clone(), perfect.clone()
    wrong_padding[1, 8] = 0
    wrong_digit[0, 6] = 0
    several_models = torch.stack([perfect, wrong_padding, wrong_digit])
    accuracies = task.accuracies(several_models, batch)
    assert accuracies["accuracy"].tolist() == pytest.approx([1, 5 / 6, 5 / 6])
    assert accuracies["digit_accuracy"].tolist() == pytest.approx([1, 1, 2 / 3])  # three digits are scored
    assert accuracies["exact_match"].tolist() == pytest.approx([1, 1, 1 / 2])


@pytest.mark.parametrize(
    ("text", "balanced"), [("()", True), ("(())()", True), (")(", False), ("(()", False), ("())(()", False)]
)
def test_balanced_strings_by_hand(text, balanced):
    assert is_balanced(tuple("?()".index(c) for c in text)) is balanced


def test_modular_addition_reads_the_answer_at_b():
    task = ModularAddition(modulus=5)
    batch = task.train_set()
    assert batch.tokens.shape == (23, 2)
    assert batch.scored.tolist() == [[False, True]] * 23
    assert torch.equal(batch.tokens.sum(dim=1) % 5, batch.targets[:, 1])


def test_parentheses_label_tokens():
    batch = Parentheses(max_pairs=3).encode([Item((1, 2, 3), (2,)), Item((2, 1, 3), (1,))])
    assert batch.tokens.tolist() == [[1, 2, 3, 0, 0, 0, 0], [2, 1, 3, 0, 0, 0, 0]]
    assert batch.targets[:, 2].tolist() == [2, 1]


def test_imitation_takes_its_targets_from_the_function_that_is_handed_in():
    def last_token_wins(tokens):
        return torch.nn.functional.one_hot(tokens[:, -1], 7).float().mul(5).log_softmax(dim=-1)

    task = Imitation(length=4, vocabulary=7, target=last_token_wins)
    batch = task.sample(50, torch.Generator().manual_seed(0))
    assert torch.equal(batch.targets[:, -1], batch.tokens[:, -1])
    assert batch.target_log_probs is not None
    assert torch.allclose(batch.target_log_probs.exp().sum(dim=1), torch.ones(50))
    assert batch.scored.sum(dim=1).tolist() == [1] * 50
