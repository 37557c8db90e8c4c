"""Two lazy rules that know which symbols have been read, but not where."""

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from icecore.seeding import make_generator

# Tokens, and the items and positions that are asked about.
Asked = tuple[Int64[Tensor, "batch seq"], Int64[Tensor, " scored"], Int64[Tensor, " scored"]]
MOST_WEIGHTS = 1_000_000  # of a logistic regression; with more, the rule is left out
MOST_WORK = 100_000_000  # weights x rows
MOST_ROWS = 20_000
ITERATIONS = 40
DECAY = 1e-4
PIECE = 50_000_000  # numbers at a time


def most_frequent_in_context(
    tokens: Int64[Tensor, "batch seq"],
    items: Int64[Tensor, " scored"],
    positions: Int64[Tensor, " scored"],
    answers: Int64[Tensor, " answers"],
    vocab_size: int,
) -> Int64[Tensor, " scored"] | None:
    """Return the most frequent possible answer among the tokens read so far; -1 where there is none.

    Of equally frequent ones, the first to appear. Return None if no answer occurs in any context.
    """
    kind_of = torch.full((vocab_size,), -1)
    kind_of[answers] = torch.arange(len(answers))
    kinds = kind_of[tokens]
    if not (kinds >= 0).any():
        return None
    guesses = torch.full_like(items, -1)
    rows = max(1, PIECE // (len(answers) * 8))
    for begin in range(0, len(tokens), rows):
        here = (items >= begin) & (items < begin + rows)
        guesses[here] = frequent_kinds(kinds[begin : begin + rows], items[here] - begin, positions[here], len(answers))
    return torch.where(guesses >= 0, answers[guesses.clamp(min=0)], -1)


def frequent_kinds(
    kinds: Int64[Tensor, "batch seq"],
    items: Int64[Tensor, " scored"],
    positions: Int64[Tensor, " scored"],
    count: int,
) -> Int64[Tensor, " scored"]:
    """Return the most frequent kind up to each scored position; -1 where there is none."""
    length = kinds.shape[1]
    # Each occurrence is worth more than any order of appearance.
    worth = torch.zeros((len(kinds), count), dtype=torch.int64)
    guesses = torch.full_like(items, -1)
    for position in range(length):
        kind = kinds[:, position]
        rows = (kind >= 0).nonzero()[:, 0]
        before = worth[rows, kind[rows]]
        worth[rows, kind[rows]] = torch.where(before > 0, before, length - position) + length
        asked = (positions == position).nonzero()[:, 0]
        if len(asked) > 0:
            most, best = worth[items[asked]].max(dim=1)
            guesses[asked] = torch.where(most > 0, best, -1)
    return guesses


def bag_of_symbols(
    train: Asked, targets: Int64[Tensor, " scored"], test: Asked, vocab_size: int
) -> Int64[Tensor, " others"] | None:
    """Fit a logistic regression to the counts of the symbols read so far and the position; return its guesses.

    Return None where it would have too many weights.
    """
    answers, labels = targets.unique(return_inverse=True)
    if len(answers) == 1:
        return answers.repeat(len(test[1]))
    columns = Columns.of(train, vocab_size)
    weights = (columns.count + 1) * len(answers)
    if weights > MOST_WEIGHTS:
        return None
    most = max(1, min(MOST_ROWS, MOST_WORK // weights))
    chosen = torch.randperm(len(targets), generator=make_generator(0, "bag of symbols"))[:most]
    tokens, items, positions = train
    fitted = fit(columns.features(tokens, items[chosen], positions[chosen]), labels[chosen], len(answers))
    tokens, items, positions = test
    rows = max(1, PIECE // (max(columns.count, tokens.shape[1]) + 1))
    guesses = [
        (columns.features(tokens, items[begin : begin + rows], positions[begin : begin + rows]) @ fitted).argmax(dim=1)
        for begin in range(0, len(items), rows)
    ]
    return answers[torch.cat(guesses)]


class Columns:
    """The features: one per symbol that was read in training, one per scored position, and a constant one."""

    def __init__(self, symbols: Int64[Tensor, " symbols"], positions: Int64[Tensor, " positions"], vocab_size: int):
        self.symbols, self.positions = len(symbols), len(positions)
        self.of_symbol = torch.full((vocab_size,), self.symbols)  # others share a column, which is dropped
        self.of_symbol[symbols] = torch.arange(self.symbols)
        self.of_position = torch.full((int(positions.max()) + 1,), -1)
        self.of_position[positions] = torch.arange(self.positions)

    @classmethod
    def of(cls, train: Asked, vocab_size: int) -> "Columns":
        tokens, _, positions = train
        return cls(tokens[:, : int(positions.max()) + 1].unique(), positions.unique(), vocab_size)

    @property
    def count(self) -> int:
        return self.symbols + self.positions

    def features(
        self, tokens: Int64[Tensor, "batch seq"], items: Int64[Tensor, " scored"], positions: Int64[Tensor, " scored"]
    ) -> Float[Tensor, "scored columns"]:
        read = self.of_symbol[tokens[items]]
        is_read: Bool[Tensor, "scored seq"] = torch.arange(tokens.shape[1]) <= positions[:, None]
        counts = torch.zeros((len(items), self.symbols + 1)).scatter_add_(1, read, is_read.float())
        one_hot = torch.zeros((len(items), self.positions))
        column = self.of_position[positions.clamp(max=len(self.of_position) - 1)]
        known = (column >= 0) & (positions < len(self.of_position))
        one_hot[known.nonzero()[:, 0], column[known]] = 1.0
        return torch.cat([counts[:, :-1], one_hot, torch.ones((len(items), 1))], dim=1)


def fit(
    features: Float[Tensor, "rows columns"], labels: Int64[Tensor, " rows"], classes: int
) -> Float[Tensor, "columns classes"]:
    """Return the weights of a multinomial logistic regression, with a small decay."""
    scale = features.square().mean(dim=0).sqrt().clamp(min=1e-6)
    scaled = features / scale
    weights = torch.zeros((features.shape[1], classes), requires_grad=True)
    search = torch.optim.LBFGS([weights], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        search.zero_grad()
        value = torch.nn.functional.cross_entropy(scaled @ weights, labels) + DECAY * weights.square().sum()
        value.backward()
        return value

    with torch.enable_grad():
        search.step(loss)
    return weights.detach() / scale[:, None]
