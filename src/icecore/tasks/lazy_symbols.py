"""Two lazy rules that know which symbols have been read, but not where."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.convex import minimize
from icecore.seeding import make_generator
from icecore.tasks.batch import ScoredTokens

MOST_WEIGHTS = 1_000_000  # of the logistic regression; with more, the rule is skipped
MOST_WORK = 100_000_000  # weights x rows
MOST_ROWS = 20_000
ITERATIONS = 40
DECAY = 1e-4
PIECE = 50_000_000  # numbers at a time


def most_frequent_in_context(
    asked: ScoredTokens, answers: Int64[Tensor, " answers"], vocab_size: int
) -> Int64[Tensor, " scored"] | None:
    """Return the most frequent possible answer among the tokens read so far; -1 where there is none.

    Of equally frequent ones, the first to appear. Return None if no answer occurs in any context.
    """
    kind_of = torch.full((vocab_size,), -1)
    kind_of[answers] = torch.arange(len(answers))
    kinds = kind_of[asked.tokens]
    if not (kinds >= 0).any():
        return None
    guesses = torch.full_like(asked.items, -1)
    rows = max(1, PIECE // len(answers))
    for begin in range(0, len(kinds), rows):
        here = (asked.items >= begin) & (asked.items < begin + rows)
        items, positions = asked.items[here] - begin, asked.positions[here]
        guesses[here] = frequent_kinds(kinds[begin : begin + rows], items, positions, len(answers))
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


def bag_of_symbols(train: ScoredTokens, test: ScoredTokens, vocab_size: int) -> Int64[Tensor, " scored"] | None:
    """Fit a logistic regression to the counts of the symbols read so far and the position; return its guesses.

    Return None where it would have too many weights.
    """
    answers, labels = train.targets.unique(return_inverse=True)
    if len(answers) == 1:
        return answers.repeat(len(test.items))
    columns = Columns.of(train, vocab_size)
    weights = (columns.count + 1) * len(answers)
    if weights > MOST_WEIGHTS:
        return None
    most = max(1, min(MOST_ROWS, MOST_WORK // weights))
    chosen = torch.randperm(len(labels), generator=make_generator(0, "bag of symbols"))[:most]
    fitted = fit(columns.features(train, chosen), labels[chosen], len(answers))
    rows = max(1, PIECE // (columns.count + test.tokens.shape[1]))
    pieces = torch.arange(len(test.items)).split(rows)
    return answers[torch.cat([(columns.features(test, piece) @ fitted).argmax(dim=1) for piece in pieces])]


class Columns:
    """The features: one per symbol that was read in training, one per scored position, and a constant one."""

    def __init__(self, symbols: Int64[Tensor, " symbols"], positions: Int64[Tensor, " positions"], vocab_size: int):
        self.symbols, self.positions = len(symbols), len(positions)
        self.of_symbol = torch.full((vocab_size,), self.symbols)  # others share a column, which is dropped
        self.of_symbol[symbols] = torch.arange(self.symbols)
        self.of_position = torch.full((int(positions.max()) + 2,), self.positions)
        self.of_position[positions] = torch.arange(self.positions)

    @classmethod
    def of(cls, train: ScoredTokens, vocab_size: int) -> "Columns":
        read = train.tokens[:, : int(train.positions.max()) + 1]
        return cls(read.unique(), train.positions.unique(), vocab_size)

    @property
    def count(self) -> int:
        return self.symbols + self.positions

    def features(self, scored: ScoredTokens, rows: Int64[Tensor, " rows"]) -> Float[Tensor, "rows columns"]:
        positions = scored.positions[rows]
        read = self.of_symbol[scored.tokens[scored.items[rows]]]
        is_read = torch.arange(read.shape[1]) <= positions[:, None]
        counts = torch.zeros((len(rows), self.symbols + 1)).scatter_add_(1, read, is_read.float())
        one_hot = torch.zeros((len(rows), self.positions + 1))
        column = self.of_position[positions.clamp(max=len(self.of_position) - 1)]
        one_hot.scatter_(1, column[:, None], 1.0)
        return torch.cat([counts[:, :-1], one_hot[:, :-1], torch.ones((len(rows), 1))], dim=1)


def fit(
    features: Float[Tensor, "rows columns"], labels: Int64[Tensor, " rows"], classes: int
) -> Float[Tensor, "columns classes"]:
    """Return the weights of a multinomial logistic regression, with a small decay."""
    scale = features.square().mean(dim=0).sqrt().clamp(min=1e-6)
    scaled = features / scale

    def loss(weights: Tensor) -> Tensor:
        fitted = torch.nn.functional.cross_entropy(scaled @ weights, labels)
        return fitted + DECAY * weights.square().sum()

    return minimize(loss, torch.zeros((features.shape[1], classes)), ITERATIONS) / scale[:, None]
