"""What counting single tokens and pairs already predicts: the baselines of a language model."""

from dataclasses import dataclass

import numpy as np

PAIRS_COUNTED = 100_000_000  # of the train tokens, the first: a bound on the time, some ten seconds
PIECE = 2**23  # tokens looked at together


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each token comes up, and each pair of neighbors that there is; never a table of all pairs."""

    vocabulary: int
    tokens: np.ndarray  # by token
    pairs: np.ndarray  # first * vocabulary + second, sorted
    times: np.ndarray  # by pair

    @staticmethod
    def of(tokens: np.ndarray, vocabulary: int, pairs_counted: int = PAIRS_COUNTED) -> "Counts":
        """Counted piece by piece; pairs only in the first `pairs_counted` tokens."""
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
        """How often each of these pairs was counted."""
        if len(self.pairs) == 0:
            return np.zeros(len(first), dtype=np.int64)
        wanted = first.astype(np.int64) * self.vocabulary + second
        place = np.searchsorted(self.pairs, wanted).clip(max=len(self.pairs) - 1)
        return np.where(self.pairs[place] == wanted, self.times[place], 0)

    def successors(self) -> np.ndarray:
        """After each token its most frequent successor; after one that was never seen, the most frequent token."""
        found = np.full(self.vocabulary, self.tokens.argmax())
        by_times = np.argsort(self.times, kind="stable")  # the last write, the most frequent, stays
        found[self.pairs[by_times] // self.vocabulary] = self.pairs[by_times] % self.vocabulary
        return found

    def unigram(self) -> np.ndarray:
        """The probability of each token, one added to every count."""
        return (self.tokens + 1) / (self.tokens.sum() + self.vocabulary)

    def unigram_loss(self, targets: np.ndarray) -> float:
        """Cross-entropy in nats a token."""
        return float(-np.log(self.unigram())[targets].mean())

    def bigram_loss(self, fed: np.ndarray, targets: np.ndarray) -> float:
        """Cross-entropy in nats a token of pairs, interpolated with single tokens after Witten and Bell.

        After a token v that was counted n times with k different successors, the probability of w is
        (times of v w + k x unigram of w) / (n + k): nothing is left to be tuned.
        """
        before = self.pairs // self.vocabulary
        seen = np.bincount(before, weights=self.times, minlength=self.vocabulary)
        kinds = np.bincount(before, minlength=self.vocabulary)
        unigram = self.unigram()
        total = 0.0
        for begin in range(0, len(targets), PIECE):
            first, second = fed[begin : begin + PIECE], targets[begin : begin + PIECE]
            weight = np.where(kinds[first] > 0, kinds[first], 1)  # nothing known: the unigram
            chance = (self.times_of(first, second) + weight * unigram[second]) / (seen[first] + weight)
            total -= float(np.log(chance).sum())
        return total / len(targets)


def merged(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Two tables of sorted keys and counts as one."""
    keys = np.concatenate([first[0], second[0]])
    order = np.argsort(keys, kind="stable")  # two sorted runs, which it merges
    keys, counts = keys[order], np.concatenate([first[1], second[1]])[order]
    begins = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[begins], np.add.reduceat(counts, begins) if len(begins) else counts
