"""The released test sets, against an independent transcription of the published draws."""

import random

import pytest

from icecore.tasks import DecimalAddition, Imitation, Memorization, ModularAddition, Needle, Parentheses

# What follows is written from the list of draws, on purpose without any of the package's code.


def shuffled(make, rng):
    items = [make(rng) for _ in range(4000)]
    rng.shuffle(items)
    return items


def needle(rng):
    n = rng.randint(1, 30)
    keys = list(range(30))
    rng.shuffle(keys)
    values = {key: rng.randint(1, 127) for key in keys[:n]}
    query = rng.choice(keys[:n])
    pairs = [token for key, value in values.items() for token in (key + 128, value)]
    return [*pairs, query + 158], [values[query]]


def addition(rng):
    terms = []
    for _ in range(2):
        digits = rng.randint(10, 10)
        terms.append(rng.randint(10 ** (digits - 1), 10**digits - 1))
    a, b, c = (str(number)[::-1] for number in (*terms, sum(terms)))
    ids = {"+": 10, "=": 11}
    return [ids.get(x) if x in ids else int(x) for x in f"{a}+{b}="], [20 + int(x) for x in c] + [30]


def brackets(rng):
    def grow(t):
        if t == 1:
            return "()"
        if rng.randint(0, 1):
            return f"({grow(t - 1)})"
        u = rng.randint(1, t - 1)
        head = grow(u)
        return head + grow(t - u)

    def repeats():
        n = 1
        while rng.randint(0, 1):
            n += 1
        return n

    mutate = rng.randint(0, 3)
    if rng.randint(0, 2):
        s = grow(rng.randint(1, 30))
        if rng.randint(0, 1):
            mutate = 0
    else:
        s = "".join(rng.choice("()") for _ in range(rng.randint(1, 60)))
    top = len(s) - 1
    if mutate in (1, 3):
        for _ in range(repeats()):
            p = rng.randint(0, top)
            q = rng.randint(0, top)
            if p < q:
                s = s[:p] + s[q] + s[p + 1 : q] + s[p] + s[q + 1 :]
    if mutate in (2, 3):
        n = repeats()
        n = n * 2 if rng.randint(0, 2) else n
        for _ in range(n):
            p = rng.randint(0, top)
            s = s[:p] + "()"["()".index(s[p]) ^ 1] + s[p + 1 :]
    rest = s
    while "()" in rest:
        rest = rest.replace("()", "")
    return ["?()".index(c) or 3 for c in s + "?"], [1 if rest else 2]


@pytest.mark.parametrize(
    ("task", "make"), [(Needle(), needle), (DecimalAddition(), addition), (Parentheses(), brackets)]
)
def test_streaming_test_set_is_the_authors(task, make):
    expected = shuffled(make, random.Random(12345))
    assert [(list(item.prompt), list(item.answer)) for item in task.test_items()] == expected


def test_modular_addition_split_is_the_authors():
    rows = [[a, b, (a + b) % 199] for a in range(199) for b in range(199)]
    random.Random(12345).shuffle(rows)
    task = ModularAddition()
    assert [[*item.prompt, *item.answer] for item in task.train_items()] == rows[:37620]
    assert [[*item.prompt, *item.answer] for item in task.test_items()] == rows[37620:]
    assert len(task.test_items()) == 1981


def test_memorization_table_is_the_authors():
    rng = random.Random(12345)
    expected = [[raw % 512, 512 + raw // 512, rng.randint(0, 511)] for raw in range(512 * 512)]
    assert [[*item.prompt, *item.answer] for item in Memorization().train_items()] == expected


def test_imitation_inputs_follow_the_scripts_own_draws():
    rng = random.Random(12345)
    for _ in range(10_000 * 40):
        rng.randint(0, 511)
    for _ in range(20_000):
        rng.choice([None] * 10_000)
    rows = [[rng.randint(0, 511) for _ in range(40)] for _ in range(4000)]
    rng.shuffle(rows)
    assert [list(item.prompt) for item in Imitation().test_items()] == rows


def test_scored_tokens_of_decimal_addition():
    # SOURCE: 38,418 digits, 4,000 stops and 1,582 paddings of the authors' 4,000 items.
    test = DecimalAddition().test_set()
    targets = test.targets[test.scored]
    assert ((targets >= 20) & (targets < 30)).sum() == 38_418
    assert (targets == 30).sum() == 4_000
    assert (targets == 12).sum() == 1_582
    assert test.scored.sum() == 44_000
