"""Unigram and bigram counts: the baselines of a language model."""

from dataclasses import dataclass

import numpy as np

PAIRS_COUNTED = 100_000_000  # only in the first train tokens, which takes about ten seconds
PIECE = 2**23  # tokens processed at a time


@dataclass(frozen=True, eq=False)
class Counts:
    """Counts of tokens and of the bigrams that occur; never a table of all pairs."""

    vocabulary: int
    tokens: np.ndarray  # by token
    pairs: np.ndarray  # first * vocabulary + second, sorted
    times: np.ndarray  # by pair

    @staticmethod
    def of(tokens: np.ndarray, vocabulary: int, pairs_counted: int = PAIRS_COUNTED) -> "Counts":
        """Count piece by piece; pairs only in the first `pairs_counted` tokens."""
        counts = np.zeros(vocabulary, dtype=np.int64)
        pairs, times = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        for begin in range(0, len(tokens), PIECE):
            counts += np.bincount(tokens[begin : begin + PIECE], minlength=vocabulary)
            if begin < pairs_counted:
                end = min(begin + PIECE, pairs_counted)
                piece = tokens[begin : end + 1].astype(np.int64)  # the last one is the next piece's first
                fresh = np.unique(piece[:-1] * vocabulary + piece[1:], return_counts=True)
                pairs, times = merged((pairs, times), fresh)
        return Counts(vocabulary, counts, pairs, times)

    def times_of(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return how often each of these pairs was counted."""
        if len(self.pairs) == 0:
            return np.zeros(len(first), dtype=np.int64)
        wanted = first.astype(np.int64) * self.vocabulary + second
        place = np.searchsorted(self.pairs, wanted).clip(max=len(self.pairs) - 1)
        return np.where(self.pairs[place] == wanted, self.times[place], 0)

    def successors(self) -> np.ndarray:
        """Return each token's most frequent successor; for an unseen token, the most frequent token."""
        found = np.full(self.vocabulary, self.tokens.argmax())
        by_times = np.argsort(self.times, kind="stable")  # the last write wins: the most frequent
        found[self.pairs[by_times] // self.vocabulary] = self.pairs[by_times] % self.vocabulary
        return found

    def unigram(self) -> np.ndarray:
        """Return the probability of each token, with add-one smoothing."""
        return (self.tokens + 1) / (self.tokens.sum() + self.vocabulary)

    def unigram_loss(self, targets: np.ndarray) -> float:
        """Return the cross-entropy in nats per token."""
        return float(-np.log(self.unigram())[targets].mean())

    def bigram_loss(self, fed: np.ndarray, targets: np.ndarray) -> float:
        """Return the cross-entropy in nats per token of bigrams with Witten-Bell interpolation.

        After a token v that was counted n times with k different successors, the probability of w is
        (count of v w + k x unigram of w) / (n + k): there is nothing to tune.
        """
        before = self.pairs // self.vocabulary
        seen = np.bincount(before, weights=self.times, minlength=self.vocabulary)
        kinds = np.bincount(before, minlength=self.vocabulary)
        unigram = self.unigram()
        total = 0.0
        for begin in range(0, len(targets), PIECE):
            first, second = fed[begin : begin + PIECE], targets[begin : begin + PIECE]
            weight = np.where(kinds[first] > 0, kinds[first], 1)  # unseen token: use the unigram
            chance = (self.times_of(first, second) + weight * unigram[second]) / (seen[first] + weight)
            total -= float(np.log(chance).sum())
        return total / len(targets)


def merged(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Merge two tables of sorted keys and counts."""
    keys = np.concatenate([first[0], second[0]])
    order = np.argsort(keys, kind="stable")  # merges two sorted runs
    keys, counts = keys[order], np.concatenate([first[1], second[1]])[order]
    begins = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[begins], np.add.reduceat(counts, begins) if len(begins) else counts
