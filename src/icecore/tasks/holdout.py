"""Find test items in training data, exactly and without a loop over items."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int64, Integer
from torch import Tensor

from icecore.errors import InputError
from icecore.seeding import make_generator


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Fixed set of sequences. `find` hashes every row and compares full rows where a hash matches.

    Hash collisions therefore reject nothing. No two held-out rows share a hash (`of` redraws the
    multipliers until none do), so none is missed.
    """

    narrow: torch.dtype  # holds every token
    words: Int64[Tensor, "items words"]  # the tokens, packed into words; distinct rows, sorted by hash
    scored: Bool[Tensor, "items seq"]  # distinguishes sequences that differ only in length
    hashes: Int64[Tensor, " items"]
    multipliers: Int64[Tensor, " words"]
    prefixes: Bool[Tensor, " prefixes"]  # leading bits of held-out hashes: a quick filter for most rows

    @classmethod
    def of(cls, tokens: Int64[Tensor, "items seq"], scored: Bool[Tensor, "items seq"], vocab_size: int) -> "HeldOut":
        width = tokens.shape[1]
        rows = torch.cat([tokens, scored.long()], dim=1).unique(dim=0)
        narrow = narrow_type(vocab_size)
        words, scored = to_words(rows[:, :width].to(narrow)), rows[:, width:].bool()
        for attempt in range(100):
            generator = make_generator(attempt, "row hash")
            multipliers = torch.randint(-(2**62), 2**62, words.shape[1:], generator=generator).to(tokens.device)
            hashes, order = row_hash(words, multipliers).sort()
            if (hashes[1:] != hashes[:-1]).all():
                prefixes = torch.zeros(1 << PREFIX_BITS, dtype=torch.bool, device=tokens.device)
                prefixes[prefix_of(hashes)] = True
                return cls(narrow, words[order], scored[order], hashes, multipliers, prefixes)
        raise InputError("test items differ in length alone: pad with a token that is used for nothing else")

    def to(self, device: torch.device) -> "HeldOut":
        return HeldOut(
            self.narrow,
            self.words.to(device),
            self.scored.to(device),
            self.hashes.to(device),
            self.multipliers.to(device),
            self.prefixes.to(device),
        )

    def find(
        self, tokens: Integer[Tensor, "batch seq"], scored: Bool[Tensor, "batch seq"] | None = None
    ) -> Int64[Tensor, " found"]:
        """Return the indices of held-out rows.

        Without `scored`, tokens alone must distinguish sequences; extra zeros may follow them.
        """
        words = to_words(tokens.to(self.narrow))[:, : len(self.multipliers)]
        hashes = row_hash(words, self.multipliers)
        nominated = self.prefixes.index_select(0, prefix_of(hashes)).nonzero()[:, 0]
        known = torch.searchsorted(self.hashes, hashes[nominated]).clamp_(max=len(self.hashes) - 1)
        same = (self.words.index_select(0, known) == words.index_select(0, nominated)).all(dim=1)
        if scored is not None:
            same &= (self.scored[known] == scored[nominated]).all(dim=1)
        return nominated[same]


PREFIX_BITS = 18


def prefix_of(hashes: Int64[Tensor, " batch"]) -> Int64[Tensor, " batch"]:
    return (hashes >> 64 - PREFIX_BITS) + (1 << PREFIX_BITS - 1)


def narrow_type(vocab_size: int) -> torch.dtype:
    """Return a small type that holds all tokens."""
    return torch.uint8 if vocab_size <= 256 else torch.int32


def to_words(rows: Integer[Tensor, "batch seq"]) -> Int64[Tensor, "batch words"]:
    """Pack the rows' bytes, eight per integer, padded with zeros."""
    excess = -rows.shape[1] % (8 // rows.element_size())
    return (torch.nn.functional.pad(rows, (0, excess)) if excess else rows).view(torch.int64)


def row_hash(words: Int64[Tensor, "batch words"], multipliers: Int64[Tensor, " words"]) -> Int64[Tensor, " batch"]:
    """Hash each row to 64 bits with random multipliers (integer arithmetic wraps around)."""
    words = words ^ words >> 32  # otherwise a word's last token would change only the hash's leading bits
    return (words * multipliers).sum(dim=1)
