"""Random strings of parentheses in bulk, as bits: 32 characters per word, 1 is `(`."""

import collections
import functools

import torch
from jaxtyping import Bool, Int16, Int64, Shaped
from torch import Tensor

from icecore.tasks.drawing import largest_first, random_bits, scale_down

SMALL_PAIRS = 9  # 6,917 balanced strings have at most this many pairs
SIZE_BITS = 16
SIGNS = -0x7FFF7FFF7FFF8000  # the sign bits of four 16-bit integers in one


def balanced_strings(
    pairs: Int64[Tensor, " batch"], width: int, generator: torch.Generator
) -> Int64[Tensor, "batch words"]:
    """Draw balanced strings of `pairs` pairs each by the recursion, as bits, 32 per word: 1 is `(`.

    Each round handles all unfinished parts of all strings together. It wraps a part up to 8 times, once
    per head of a coin before the first tail, and splits it at the tail. Parts of up to SMALL_PAIRS pairs
    are drawn in one step, from the exact probabilities of all small strings. Parts never overlap.
    """
    device = pairs.device
    place_bits = max((width - 1).bit_length(), 5)
    words = torch.zeros(len(pairs) << place_bits - 5, dtype=torch.int64, device=device)

    def write(begin: Tensor, pattern: Tensor) -> None:
        words.index_add_(0, begin >> 5, pattern << (begin & 31))

    # A part is one integer: its start, with its size in the lowest bits.
    size_mask = (1 << SIZE_BITS) - 1
    parts = (torch.arange(len(pairs), device=device) << place_bits + SIZE_BITS) + pairs
    parts = parts[pairs > 0]
    heads_of_byte = torch.tensor([(~byte & byte + 1).bit_length() - 1 for byte in range(256)], device=device)
    small: list[Tensor] = []
    while True:
        is_small = parts & size_mask <= SMALL_PAIRS
        small.append(parts[is_small])
        parts = parts[~is_small]
        if len(parts) == 0:
            break
        bits = random_bits(tuple(parts.shape), generator)
        begin, size = parts >> SIZE_BITS, parts & size_mask
        heads = heads_of_byte[bits & 255]
        wraps = torch.minimum(heads, size - SMALL_PAIRS)
        splits = (heads == wraps) & (heads < 8) & (wraps < size - SMALL_PAIRS)
        write(begin, (1 << wraps) - 1)
        begin, size = begin + wraps, size - wraps
        left = torch.where(splits, 1 + scale_down(bits >> 32, size - 1), size)
        right = (begin + 2 * left << SIZE_BITS) + (size - left)
        parts = torch.cat([(begin << SIZE_BITS) + left, right[splits]])

    parts = torch.cat(small)
    write(parts >> SIZE_BITS, draw_small_strings(parts & size_mask, generator))
    words = words.view(len(pairs), -1)
    words[:, 1:] += words[:, :-1] >> 32  # bits from the 32nd on belong to the next word
    return words & 0xFFFFFFFF


def draw_small_strings(pairs: Int64[Tensor, " parts"], generator: torch.Generator) -> Int64[Tensor, " parts"]:
    """Draw balanced strings of 1..SMALL_PAIRS pairs as bits, by Walker's alias method."""
    first_slot, slots, threshold, pattern, alias = small_string_tables(pairs.device)
    bits = random_bits(tuple(pairs.shape), generator)
    slot = first_slot.index_select(0, pairs) + scale_down(bits >> 32, slots.index_select(0, pairs))
    is_first = (bits & 0x7FFFFFFF) < threshold.index_select(0, slot)
    return torch.where(is_first, pattern.index_select(0, slot), alias.index_select(0, slot))


@functools.cache
def small_string_tables(device: torch.device) -> tuple[Tensor, ...]:
    """Return the alias tables.

    Per number of pairs: first slot, number of slots. Per slot: probability of its string (times 2^31),
    the string, and the alternative.
    """
    first_slot, slots, threshold, pattern, alias = tables = ([0], [0], [], [], [])
    for strings in small_string_probabilities()[1:]:
        first_slot.append(len(pattern))
        slots.append(len(strings))
        patterns = [sum(bit << place for place, bit in enumerate(text)) for text in strings]
        height = [share * len(strings) for share in strings.values()]  # 1 on average; leveled below
        other = list(range(len(strings)))
        low = [slot for slot, share in enumerate(height) if share < 1]
        high = [slot for slot, share in enumerate(height) if share >= 1]
        while low and high:
            giver = high[-1]
            taker = low.pop()
            other[taker] = giver
            height[giver] -= 1 - height[taker]
            if height[giver] < 1:
                low.append(high.pop())
        threshold += [round(min(share, 1.0) * 2**31) for share in height]
        pattern += patterns
        alias += [patterns[slot] for slot in other]
    return tuple(torch.tensor(table, device=device) for table in tables)


def small_string_probabilities() -> list[dict[tuple[int, ...], float]]:
    """Return each balanced string, 1 for `(`, with its probability, for 0..SMALL_PAIRS pairs."""
    by_size: list[dict[tuple[int, ...], float]] = [{(): 1.0}, {(1, 0): 1.0}]
    for size in range(2, SMALL_PAIRS + 1):
        strings: dict[tuple[int, ...], float] = collections.defaultdict(float)
        for inner, share in by_size[size - 1].items():
            strings[(1, *inner, 0)] += share / 2
        for left in range(1, size):
            for first, share in by_size[left].items():
                for second, other_share in by_size[size - left].items():
                    strings[first + second] += share * other_share / (2 * (size - 1))
        by_size.append(strings)
    return by_size


def mutate_strings(
    words: Int64[Tensor, "batch words"],
    lengths: Int64[Tensor, " batch"],
    rows: Int64[Tensor, " rows"],
    swaps: Int64[Tensor, " rows"],
    flips: Int64[Tensor, " rows"],
    flip_two: Bool[Tensor, " rows"],
    in_order_only: bool,
    generator: torch.Generator,
) -> None:
    """Mutate `rows` in place: swap two uniform characters `swaps` times, then flip one, or two, `flips` times.

    A round takes one step in each row that has steps left.
    """
    order, left = largest_first(swaps + flips)
    if not left:
        return
    rows, swaps, flip_two = rows[order], swaps[order], flip_two[order]
    row = torch.cat([rows[:count] for count in left])
    is_swap = torch.cat([swaps[:count] > step for step, count in enumerate(left)])
    flip_second = torch.cat([flip_two[:count] for count in left]) & ~is_swap
    bits, length = random_bits(tuple(row.shape), generator), lengths[row]
    i, j = scale_down(bits >> 32, length), scale_down(bits & 0x7FFFFFFF, length)
    may_swap = is_swap & (i < j) if in_order_only else is_swap

    begin = row * words.shape[1]
    flat = words.view(-1)
    steps = (begin + (i >> 5), begin + (j >> 5), i & 31, j & 31, may_swap.long(), (~is_swap).long(), flip_second.long())
    for first, second, i, j, may_swap, flip_first, flip_second in zip(
        *(part.split(left) for part in steps), strict=True
    ):
        word = flat.index_select(0, first)
        differ = (word >> i ^ flat.index_select(0, second) >> j) & may_swap
        flat.put_(first, word ^ (differ | flip_first) << i)
        flat.put_(second, flat.index_select(0, second) ^ (differ | flip_second) << j)  # may be the same word


def bits_inside(lengths: Int64[Tensor, " batch"], words: int) -> Int64[Tensor, "batch words"]:
    """Return words with ones at the characters of a string of each length."""
    begin = 32 * torch.arange(words, device=lengths.device)
    return (1 << (lengths[:, None] - begin).clamp_(0, 32)) - 1


def a_byte_each(opens: Int64[Tensor, "batch words"]) -> Int64[Tensor, "batch bytes"]:
    """Expand to one byte per character, 1 for `(`; eight per integer."""
    spread, _, _ = byte_tables(opens.device)
    return look_up(spread, opens)


def are_balanced(
    opens: Int64[Tensor, "batch words"], inside: Int64[Tensor, "batch words"], lengths: Int64[Tensor, " batch"]
) -> Bool[Tensor, " batch"]:
    """Tell which strings are balanced; padding one of even length with `()` does not change that."""
    _, rises, lows = byte_tables(opens.device)
    filled = opens | 0x55555555 & ~inside
    rise = look_up(rises, filled)
    depth = rise.cumsum(dim=1, dtype=torch.int16)
    lowest = depth - rise + look_up(lows, filled)
    never_negative = (lowest.view(torch.int64) & SIGNS == 0).all(dim=1)
    return never_negative & (depth[:, -1] == 0) & (lengths & 1 == 0)


def look_up(table: Shaped[Tensor, " 256"], words: Int64[Tensor, "batch words"]) -> Shaped[Tensor, "batch bytes"]:
    """Return the table's entries for the bytes of 32-bit words."""
    octets = words.int().view(torch.uint8)
    return table.index_select(0, octets.flatten().long()).view(octets.shape)


@functools.cache
def byte_tables(device: torch.device) -> tuple[Int64[Tensor, " 256"], Int16[Tensor, " 256"], Int16[Tensor, " 256"]]:
    """Return tables over all strings of eight characters.

    One byte per character (eight per integer, on little-endian machines), the rise in depth, the lowest depth.
    """
    byte, place = torch.arange(256, device=device), torch.arange(8, device=device)
    opens = byte[:, None] >> place & 1
    depth = (2 * opens - 1).cumsum(dim=1).short()
    return opens.to(torch.uint8).view(torch.int64)[:, 0], depth[:, -1].contiguous(), depth.amin(dim=1)
