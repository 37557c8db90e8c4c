"""Finding test items in a stream, exactly and without a loop over items."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from icecore.seeding import make_generator


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A fixed set of sequences. `find` hashes every row, and compares whole rows where a hash is known.

    A hash only nominates: equal hashes of unequal rows reject nothing. And no two held-out rows share
    a hash (`of` draws the multipliers until that is so), so none is missed.
    """

    tokens: Int64[Tensor, "items seq"]  # distinct, in the order of their hashes
    scored: Bool[Tensor, "items seq"]  # tells sequences apart that differ only in their length
    hashes: Int64[Tensor, " items"]
    multipliers: Int64[Tensor, " seq"]
    prefixes: Bool[Tensor, " prefixes"]  # which first bits a held-out hash has: sorts most rows out at once

    @classmethod
    def of(cls, tokens: Int64[Tensor, "items seq"], scored: Bool[Tensor, "items seq"]) -> "HeldOut":
        width = tokens.shape[1]
        rows = torch.cat([tokens, scored.long()], dim=1).unique(dim=0)
        tokens, scored = rows[:, :width].contiguous(), rows[:, width:].bool()
        for attempt in range(100):
            generator = make_generator(attempt, "row hash")
            multipliers = torch.randint(-(2**62), 2**62, (width,), generator=generator).to(tokens.device)
            hashes, order = row_hash(tokens, multipliers).sort()
            if (hashes[1:] != hashes[:-1]).all():
                prefixes = torch.zeros(1 << PREFIX_BITS, dtype=torch.bool, device=tokens.device)
                prefixes[prefix_of(hashes)] = True
                return cls(tokens[order], scored[order], hashes, multipliers, prefixes)
        raise AssertionError("test items of equal tokens and unequal lengths: use a token that only pads")

    def to(self, device: torch.device) -> "HeldOut":
        return HeldOut(
            self.tokens.to(device),
            self.scored.to(device),
            self.hashes.to(device),
            self.multipliers.to(device),
            self.prefixes.to(device),
        )

    def find(self, tokens: Int64[Tensor, "batch seq"], scored: Bool[Tensor, "batch seq"]) -> Int64[Tensor, " found"]:
        """The indices of the rows that are held out."""
        hashes = row_hash(tokens, self.multipliers)
        nominated = self.prefixes[prefix_of(hashes)].nonzero()[:, 0]
        known = torch.searchsorted(self.hashes, hashes[nominated]).clamp_(max=len(self.hashes) - 1)
        same = (self.tokens[known] == tokens[nominated]) & (self.scored[known] == scored[nominated])
        return nominated[same.all(dim=1)]


PREFIX_BITS = 18


def prefix_of(hashes: Int64[Tensor, " batch"]) -> Int64[Tensor, " batch"]:
    return (hashes >> 64 - PREFIX_BITS) + (1 << PREFIX_BITS - 1)


def row_hash(rows: Int64[Tensor, "batch seq"], multipliers: Int64[Tensor, " seq"]) -> Int64[Tensor, " batch"]:
    """A random linear map to 64 bits (integer arithmetic wraps around)."""
    return (rows * multipliers).sum(dim=1)
