"""The tensor samplers against their references: the same items, the same distribution, no test item.

Seeds are fixed, so each test gives one p-value for good. A threshold of 1e-4 would have failed a right
sampler once in 10,000 versions of it; each test also shows that the paper's wording is told apart.
"""

import itertools
import math
import random
from collections import Counter
from dataclasses import replace

import pytest
import torch

from icecore.errors import InputError
from icecore.tasks import LADDER, TASKS, DecimalAddition, Memorization, ModularAddition, Needle, Parentheses
from icecore.tasks.base import held_out_of
from icecore.tasks.drawing import half_words, scale_half_words
from icecore.tasks.holdout import HeldOut
from icecore.tasks.parentheses import plain_balanced
from icecore.tasks.parenthesis_strings import balanced_strings

pytestmark = pytest.mark.shapes

STREAMING = [
    task_class(**task_class.presets[preset])
    for task_class in (Needle, DecimalAddition, Parentheses)
    for preset in ("released", "paper")
]
STREAMING.append(Parentheses(max_pairs=12, min_length=7))
DRAWS = 20_000


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def two_sample_p(first: Counter, second: Counter) -> float:
    """The p-value of a chi-square test that two samples of categories come from one distribution.

    Rare categories are pooled; the tail is Wilson and Hilferty's normal approximation.
    """
    n, m = first.total(), second.total()
    table, pooled = [], [0, 0]
    for key in first | second:
        pair = first[key], second[key]
        if sum(pair) * min(n, m) / (n + m) >= 8:
            table.append(pair)
        else:
            pooled = [pooled[0] + pair[0], pooled[1] + pair[1]]
    if sum(pooled) > 0:
        table.append(tuple(pooled))
    statistic = 0.0
    for a, b in table:
        for seen, share in ((a, n / (n + m)), (b, m / (n + m))):
            statistic += (seen - (a + b) * share) ** 2 / ((a + b) * share)
    freedom = len(table) - 1
    z = ((statistic / freedom) ** (1 / 3) - 1 + 2 / (9 * freedom)) / math.sqrt(2 / (9 * freedom))
    return 0.5 * math.erfc(z / math.sqrt(2))


def plain_items(task, count):
    stream = task.plain_stream(random.Random(1))
    return [next(stream) for _ in range(count)]


def features(task, items) -> dict[str, Counter]:
    """Marginals by name, which together would show any slip in a step of the sampler."""
    if isinstance(task, Needle):
        return {
            "pairs": Counter(len(item.prompt) for item in items),
            "asked": Counter(item.prompt[-1] for item in items),
            "answer": Counter(item.answer[0] for item in items),
            "first and second marker": Counter((i.prompt[0], i.prompt[2]) for i in items if len(i.prompt) > 3),
            "marker asked, by place": Counter(
                (len(i.prompt) // 8, i.prompt[:-1].index(i.answer[0]) // 8) for i in items
            ),
            "last value": Counter(item.prompt[-2] for item in items),
        }
    if isinstance(task, DecimalAddition):
        return {
            "answer's length": Counter(len(item.answer) for item in items),
            "leading digits": Counter((item.prompt[9], item.prompt[20], item.answer[9]) for item in items),
            "low digits": Counter((item.prompt[0], item.prompt[11]) for item in items),
            "middle digits": Counter((item.prompt[4], item.prompt[15], item.answer[4]) for item in items),
        }
    return {
        "length": Counter(len(item.prompt) for item in items),
        "balanced": Counter(item.answer[0] for item in items),
        "balanced, by length": Counter((len(item.prompt), item.answer[0]) for item in items),
        "first four": Counter(item.prompt[:4] for item in items),
        "last four": Counter(item.prompt[-5:-1] for item in items),
        "opening, by length": Counter((len(i.prompt) // 6, i.prompt.count(1) - i.prompt.count(2)) for i in items),
        "deepest": Counter(max_depth(item.prompt) for item in items),
    }


def max_depth(prompt) -> int:
    depth = deepest = 0
    for token in prompt[:-1]:
        depth += 1 if token == 1 else -1
        deepest = max(deepest, depth)
    return deepest


@pytest.mark.parametrize("task", STREAMING, ids=str)
def test_stream_has_the_references_distribution(task):
    sampled = features(task, task.items(task.sample(DRAWS, generator())))
    plain = features(task, plain_items(task, DRAWS))
    p_values = {name: two_sample_p(sampled[name], plain[name]) for name in plain}
    assert min(p_values.values()) > 1e-4, p_values


def test_the_papers_wording_would_fail_that_test():
    released, paper = Parentheses(), Parentheses(**Parentheses.presets["paper"])
    plain = features(released, plain_items(released, 5_000))
    worded = features(released, paper.items(paper.sample(5_000, generator())))
    assert two_sample_p(worded["balanced"], plain["balanced"]) < 1e-30


@pytest.mark.parametrize("setting", ["spare_half_of_balanced", "double_flips", "swap_in_order_only"])
def test_each_difference_from_the_papers_wording_shows(setting):
    """Each of the three alone moves the stream, so none is a setting that silently does nothing."""

    def labels(task):
        return Counter((task.draw(400_000, generator()).targets == 2).any(dim=1).tolist())

    assert two_sample_p(labels(Parentheses()), labels(Parentheses(**{setting: False}))) < 1e-6


@pytest.mark.parametrize("pairs", [1, 2, 3, 5, 9, 10, 13, 30, 45])
def test_balanced_recursion_has_the_references_distribution(pairs):
    """Alone, without mutation, around the size at which strings are drawn whole, and over several words."""
    count = 8_000
    words = balanced_strings(torch.full((count,), pairs), 2 * pairs, generator(pairs))
    bits = (words[:, :, None] >> torch.arange(32) & 1).flatten(1)[:, : 2 * pairs]
    rows = [tuple(row) for row in bits.tolist()]
    rng = random.Random(pairs)
    plain = [tuple(int(c == "(") for c in plain_balanced(pairs, rng)) for _ in range(count)]
    for row in rows:
        depth = 0
        for character in row:
            depth += 1 if character else -1
            assert depth >= 0
        assert depth == 0
    for window in (slice(0, 12), slice(-12, None), slice(pairs - 5, pairs + 5)):
        a, b = Counter(row[window] for row in rows), Counter(row[window] for row in plain)
        assert len(a | b) == 1 or two_sample_p(a, b) > 1e-4


def test_balanced_share_of_released_and_paper():
    def share(task):
        return (task.draw(200_000, generator()).targets == 2).any(dim=1).double().mean().item()

    # Four standard errors of 200,000 draws are .0045; 2 million plain draws gave the centres.
    assert share(Parentheses()) == pytest.approx(0.525, abs=0.0045)
    assert share(Parentheses(**Parentheses.presets["paper"])) == pytest.approx(0.321, abs=0.0045)


@pytest.mark.parametrize(("task", "share", "error"), [(Parentheses(), 0.141, 0.0032), (Needle(), 0.00125, 0.0004)])
def test_rejected_share(task, share, error):
    """SOURCE: 14.1 % of parentheses draws, .12 % of needle draws; within four standard errors."""
    rejection = held_out_of(task, torch.device("cpu"))
    assert rejection is not None
    drawn = task.draw(200_000, generator(3))
    assert len(rejection.rows.find(drawn.tokens, drawn.scored)) / 200_000 == pytest.approx(share, abs=error)


@pytest.mark.parametrize("task_class", [Needle, DecimalAddition, Parentheses])
def test_unfiltered_training_data_keep_test_items(task_class):
    task = task_class(**task_class.presets["unfiltered"])
    assert held_out_of(task, torch.device("cpu")) is None
    assert task.test_items() == task_class().test_items()
    assert torch.equal(task.sample(100, generator()).tokens, task.draw(100, generator()).tokens)
    if task_class is Parentheses:
        plain = itertools.islice(task.plain_stream(random.Random(0)), 1_000)
        assert sum(item in set(task.test_items()) for item in plain) > 100  # 141 are to be expected


def test_the_short_balanced_strings_are_all_test_items():
    """Why a model that has learned the stream fails on them (docs/reconstruction.md)."""
    short = [item.prompt for item in Parentheses().test_items() if len(item.prompt) <= 7 and item.answer == (2,)]
    found = {"".join(" ()?"[token] for token in prompt[:-1]) for prompt in short}
    assert {length: sum(len(text) == length for text in found) for length in (2, 4, 6)} == {2: 1, 4: 2, 6: 5}


@pytest.mark.parametrize("task", [Needle(max_pairs=3, values=10, vocabulary=30), Parentheses(max_pairs=6)], ids=str)
def test_exactly_the_test_items_are_rejected(task):
    """On tasks so small that every item that is not held out must come up in the stream."""
    held_out = set(task.test_items())
    rng = random.Random(0)
    seen = Counter(task.plain_item(rng) for _ in range(60_000))
    likely = {item for item, times in seen.items() if times >= 10} - held_out
    streamed = set(task.items(task.sample(60_000, generator())))
    assert not streamed & held_out
    assert likely <= streamed
    assert likely, "the task must be large enough for a stream"


def test_held_out_rows_are_those_with_the_same_tokens_and_the_same_scored_places():
    tokens = torch.tensor([[256, 1, 2, 2], [5, 6, 7, 8]])
    scored = torch.tensor([[False, False, True, False], [False, False, False, True]])
    held_out = HeldOut.of(tokens, scored, 257)
    others = torch.tensor([[0, 1, 2, 2], [5, 6, 8, 7]])
    rows = torch.cat([others, tokens, tokens]), torch.cat([scored, scored, scored.flip(1)])
    assert held_out.find(*rows).tolist() == [2, 3]
    of_one_hash = replace(
        HeldOut.of(tokens[1:], scored[1:], 257),
        hashes=torch.zeros(1, dtype=torch.int64),
        multipliers=torch.zeros(2, dtype=torch.int64),
        prefixes=torch.ones_like(held_out.prefixes),
    )
    assert of_one_hash.find(*rows).tolist() == [3], "a hash alone rejects nothing"
    with pytest.raises(InputError, match="test items differ in length alone"):
        HeldOut.of(tokens[[0, 0]], scored, 257)


@pytest.mark.parametrize("task", STREAMING, ids=str)
def test_draws_are_what_encoding_their_items_gives(task):
    batch = task.draw(500, generator())
    encoded = task.encode(task.items(batch))
    for part, expected in zip(batch.parts(), encoded.parts(), strict=True):
        assert torch.equal(part, expected)


@pytest.mark.parametrize("task", STREAMING, ids=str)
def test_every_drawn_answer_is_right(task):
    for prompt, answer in task.items(task.draw(500, generator())):
        if isinstance(task, Needle):
            shift = 30 if task.query == "own-token" else 0
            values = dict(zip(prompt[:-1:2], prompt[1:-1:2], strict=True))
            assert len(values) == len(prompt) // 2, "markers are distinct"
            assert answer == (values[prompt[-1] - shift],)
        elif isinstance(task, DecimalAddition):
            first, second = prompt[:10], prompt[11:21]
            total = sum(digit * 10**i for i, digit in enumerate(first)) + sum(d * 10**i for i, d in enumerate(second))
            assert sum((digit - 20) * 10**i for i, digit in enumerate(answer[:-1])) == total
        else:
            text = "".join("?()"[token] for token in prompt[:-1])
            while "()" in text:
                text = text.replace("()", "")
            assert answer == (1 if text else 2,)


def test_a_sample_is_decided_by_its_generator():
    for task in STREAMING:
        first, again = task.sample(300, generator(4)), task.sample(300, generator(4))
        assert all(torch.equal(a, b) for a, b in zip(first.parts(), again.parts(), strict=True))
        assert not torch.equal(first.tokens, task.sample(300, generator(5)).tokens)


def test_finite_tasks_draw_distinct_training_items():
    for task in (ModularAddition(modulus=7), Memorization(keys=4)):
        train = set(task.train_items())
        drawn = task.items(task.sample(len(train), generator()))
        assert set(drawn) == train
        assert len(drawn) == len(train)
        with pytest.raises(InputError, match=f"the {len(train)} training items, got {len(train) + 1}"):
            task.sample(len(train) + 1, generator())


def test_every_task_is_reachable_by_name():
    assert list(TASKS)[: -len(LADDER)] == [
        "modular-addition",
        "needle",
        "decimal-addition",
        "parentheses",
        "memorization",
        "imitation",
        "language",
    ]
    assert list(TASKS)[-len(LADDER) :] == [task.name for task in LADDER]


@pytest.mark.parametrize("bound", [1, 127, 128, 200, 5000])
def test_half_words_reach_every_number_below_their_bound(bound):
    drawn = scale_half_words(half_words((200_000,), torch.Generator().manual_seed(0)), bound).double()
    assert (int(drawn.min()), int(drawn.max())) == (0, bound - 1)
    # Four standard errors; a uniform number below n has a variance of (n^2 - 1) / 12.
    assert drawn.mean().item() == pytest.approx((bound - 1) / 2, abs=4 * math.sqrt(bound**2 / 12 / 200_000))
