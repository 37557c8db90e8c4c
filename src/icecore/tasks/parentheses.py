"""Parenthesis balancing (Dyck recognition)."""

import collections
import functools
import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Int16, Int64, Shaped
from torch import Tensor

from icecore.errors import require
from icecore.tasks.base import Item
from icecore.tasks.drawing import below, geometric, largest_first, random_bits, scale_down
from icecore.tasks.one_answer import OneAnswer, OneAnswerTask
from icecore.tasks.plain import kept_in_stream, require_test_size

OPEN, CLOSE, QUESTION = 1, 2, 3  # SOURCE: appendix D.1.2
UNBALANCED, BALANCED = 1, 2

SMALL_PAIRS = 9  # 6,917 balanced strings have at most as many pairs
SIZE_BITS = 16
SIGNS = -0x7FFF7FFF7FFF8000  # of four integers of 16 bits in one


@dataclass(frozen=True)
class Parentheses(OneAnswerTask):
    """Given a string of parentheses, say whether it is balanced.

    In words:    ( ( ) ) ( ) ? -> yes          ) ( ? -> no
    As tokens:   1 1 2 2 1 2 3 -> 2            2 1 3 -> 1

    A third of the strings is random, of length min_length..2 max_pairs; two thirds are balanced, of up to
    max_pairs pairs, by recursion: one pair is `()`; otherwise, with probability 1/2 each, a pair around a string
    of one pair fewer, or two strings that split the pairs uniformly. Then characters may be swapped,
    and characters may be flipped, each with probability 1/2 and a geometric number of times.
    """

    max_pairs: int = 30  # SOURCE: section 4.1
    min_length: int = 1  # of a string; there are few short ones, so that the test set holds them all
    # DIFFERS: three things that the scripts do and appendix D.1.2 does not say. Together they raise the
    # share of balanced strings from 31 % to 52 %.
    spare_half_of_balanced: bool = True  # half of the balanced strings are not mutated at all
    double_flips: bool = True  # with probability 2/3, twice as many flips
    swap_in_order_only: bool = True  # swap i, j only if i < j
    test_size: int = 4_000  # items held out; on a small task too many of them bend the stream
    test_items_in_stream: bool = kept_in_stream()

    name: ClassVar[str] = "parentheses"
    presets: ClassVar = {
        "released": {},
        "readme": {"test_items_in_stream": True},
        "paper": {"spare_half_of_balanced": False, "double_flips": False, "swap_in_order_only": False},
    }

    def __post_init__(self) -> None:
        require(self.max_pairs >= 1, f"max_pairs must be at least 1, got {self.max_pairs}")
        require(
            1 <= self.min_length <= 2 * self.max_pairs,
            f"min_length must be from 1 to {2 * self.max_pairs} for {self.max_pairs} pairs, got {self.min_length}",
        )
        require_test_size(self.test_size)

    @property
    def vocab_size(self) -> int:
        return QUESTION + 1

    @property
    def min_pairs(self) -> int:
        return (self.min_length + 1) // 2

    @property
    def max_length(self) -> int:
        return 2 * self.max_pairs + 1

    def read(self, text: str) -> tuple[int, ...]:
        """`( ( ) )`, with or without spaces and the closing ?."""
        characters = text.replace(" ", "").removesuffix("?")
        require(
            bool(characters) and set(characters) <= set("()"), f"parentheses reads '( ( ) )' and the like, not '{text}'"
        )
        return self.checked_prompt((*(OPEN if one == "(" else CLOSE for one in characters), QUESTION))

    def words(self, tokens: Sequence[int]) -> list[str]:
        return [" ()?"[token] for token in tokens]

    def plain_item(self, rng: random.Random) -> Item:
        mutate = rng.randint(0, 3)
        if rng.randint(0, 2) == 0:
            length = rng.randint(self.min_length, 2 * self.max_pairs)
            text = [rng.choice("()") for _ in range(length)]
        else:
            text = list(plain_balanced(rng.randint(self.min_pairs, self.max_pairs), rng))
            if self.spare_half_of_balanced and rng.randint(0, 1):
                mutate = 0
        if mutate & 1:
            for _ in range(plain_geometric(rng)):
                i, j = rng.randint(0, len(text) - 1), rng.randint(0, len(text) - 1)
                if i < j or not self.swap_in_order_only:
                    text[i], text[j] = text[j], text[i]
        if mutate & 2:
            flips = plain_geometric(rng)
            if self.double_flips and rng.randint(0, 2):
                flips *= 2
            for _ in range(flips):
                i = rng.randint(0, len(text) - 1)
                text[i] = ")" if text[i] == "(" else "("
        tokens = tuple(OPEN if character == "(" else CLOSE for character in text)
        return Item((*tokens, QUESTION), (BALANCED if is_balanced(tokens) else UNBALANCED,))

    def draw_compact(self, count: int, generator: torch.Generator) -> OneAnswer:
        first, second = random_bits((2, count), generator)  # both halves of both words are used
        is_random = scale_down(first >> 32, 3) == 0
        pairs = (self.min_pairs + scale_down(second >> 32, self.max_pairs - self.min_pairs + 1)) * ~is_random
        words = balanced_strings(pairs, self.max_length, generator)
        lengths = 2 * pairs
        random_rows = is_random.nonzero()[:, 0]
        choices = 2 * self.max_pairs - self.min_length + 1
        lengths[random_rows] = self.min_length + below(choices, (len(random_rows),), generator)
        words[random_rows] = random_bits((len(random_rows), words.shape[1]), generator) & 0xFFFFFFFF

        mutate = first & 3
        if self.spare_half_of_balanced:
            mutate *= is_random | (first & 4 == 0)
        rows = mutate.nonzero()[:, 0]
        swaps = geometric((len(rows),), generator) * (mutate[rows] & 1)
        flips = geometric((len(rows),), generator) * (mutate[rows] >> 1)
        flip_two = (scale_down(second[rows] & 0x7FFFFFFF, 3) > 0) & self.double_flips
        mutate_strings(words, lengths, rows, swaps, flips, flip_two, self.swap_in_order_only, generator)
        return write_out(words, lengths)

    def floors(self) -> dict[str, float]:
        items = self.test_items()

        def ends(text: tuple[int, ...]) -> bool:
            return text[0] == OPEN and text[-1] == CLOSE

        def equal_counts(text: tuple[int, ...]) -> bool:
            return 2 * text.count(OPEN) == len(text)

        return {
            "majority": best_rule(items, lambda _: None),
            "ends": best_rule(items, ends),
            "equal_counts": best_rule(items, equal_counts),
            "equal_counts_and_ends": best_rule(items, lambda text: ends(text) and equal_counts(text)),
        }


def best_rule(items: list[Item], feature: Callable[[tuple[int, ...]], Hashable]) -> float:
    """The accuracy of the best answer for each value of a feature of the string."""
    answers: dict[Hashable, collections.Counter[int]] = collections.defaultdict(collections.Counter)
    for item in items:
        answers[feature(item.prompt[:-1])][item.answer[0]] += 1
    return sum(max(counts.values()) for counts in answers.values()) / len(items)


def is_balanced(tokens: tuple[int, ...]) -> bool:
    depth = 0
    for token in tokens:
        depth += 1 if token == OPEN else -1
        if depth < 0:
            return False
    return depth == 0


def plain_balanced(pairs: int, rng: random.Random) -> str:
    if pairs == 1:
        return "()"
    if rng.randint(0, 1):
        return "(" + plain_balanced(pairs - 1, rng) + ")"
    left = rng.randint(1, pairs - 1)
    return plain_balanced(left, rng) + plain_balanced(pairs - left, rng)


def plain_geometric(rng: random.Random) -> int:
    count = 1
    while rng.randint(0, 1):
        count += 1
    return count


def balanced_strings(
    pairs: Int64[Tensor, " batch"], width: int, generator: torch.Generator
) -> Int64[Tensor, "batch words"]:
    """Balanced strings by the recursion, of `pairs` pairs each, as bits, 32 to a word: 1 is `(`.

    All parts of all strings that are still to be unwrapped or split are handled together, in rounds: a
    round gives each part up to 8 wraps, one for each head of a coin before the first tail, and then, at
    the tail, splits it. Parts of up to SMALL_PAIRS pairs are drawn whole, from the exact probabilities
    of all small strings. No part is written where another one is.
    """
    device = pairs.device
    place_bits = max((width - 1).bit_length(), 5)
    words = torch.zeros(len(pairs) << place_bits - 5, dtype=torch.int64, device=device)

    def write(begin: Tensor, pattern: Tensor) -> None:
        words.index_add_(0, begin >> 5, pattern << (begin & 31))

    # A part is one integer: where it begins, then its size in the lowest bits.
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
    """Balanced strings of 1..SMALL_PAIRS pairs as bits, each drawn in one go by Walker's alias method."""
    first_slot, slots, threshold, pattern, alias = small_string_tables(pairs.device)
    bits = random_bits(tuple(pairs.shape), generator)
    slot = first_slot.index_select(0, pairs) + scale_down(bits >> 32, slots.index_select(0, pairs))
    is_first = (bits & 0x7FFFFFFF) < threshold.index_select(0, slot)
    return torch.where(is_first, pattern.index_select(0, slot), alias.index_select(0, slot))


@functools.cache
def small_string_tables(device: torch.device) -> tuple[Tensor, ...]:
    """For each number of pairs, its first slot and number of slots; for each slot, a string with the
    chance, of 2^31, that the slot yields it, and the string that it yields otherwise."""
    first_slot, slots, threshold, pattern, alias = tables = ([0], [0], [], [], [])
    for strings in small_string_probabilities()[1:]:
        first_slot.append(len(pattern))
        slots.append(len(strings))
        patterns = [sum(bit << place for place, bit in enumerate(text)) for text in strings]
        height = [share * len(strings) for share in strings.values()]  # 1 on average: to be levelled
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
    """For 0..SMALL_PAIRS pairs: each balanced string, 1 for `(`, with its probability."""
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


def look_up(table: Shaped[Tensor, " 256"], words: Int64[Tensor, "batch words"]) -> Shaped[Tensor, "batch bytes"]:
    """The table's entries for the bytes of words of 32 bits."""
    octets = words.int().view(torch.uint8)
    return table.index_select(0, octets.flatten().long()).view(octets.shape)


@functools.cache
def byte_tables(device: torch.device) -> tuple[Int64[Tensor, " 256"], Int16[Tensor, " 256"], Int16[Tensor, " 256"]]:
    """For each eight characters: a byte for each (eight are an integer, on little-endian machines), by how
    much the depth rises, and how low it gets on the way."""
    byte, place = torch.arange(256, device=device), torch.arange(8, device=device)
    opens = byte[:, None] >> place & 1
    depth = (2 * opens - 1).cumsum(dim=1).short()
    return opens.to(torch.uint8).view(torch.int64)[:, 0], depth[:, -1].contiguous(), depth.amin(dim=1)


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
    """In some rows, in place: swap two uniform characters `swaps` times, then flip one, or two, `flips` times.

    A round takes one step in each row that has one left.
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


def write_out(words: Int64[Tensor, "batch words"], lengths: Int64[Tensor, " batch"]) -> OneAnswer:
    """The items of these strings; what the words hold after a string's end is dropped."""
    column = torch.arange(32 * words.shape[1], device=words.device)
    inside = (1 << (lengths[:, None] - column[::32]).clamp_(0, 32)) - 1
    opens = words & inside
    # For each length, the tokens of closing characters alone: less 1 where one opens.
    length = column[:, None]
    closed = (CLOSE * (column < length) + QUESTION * (column == length)).to(torch.uint8).view(torch.int64)
    spread, rises, lows = byte_tables(words.device)
    tokens = closed.index_select(0, lengths) - look_up(spread, opens)

    # Filled up with pairs from an even place on, words are balanced if their strings are.
    filled = opens | 0x55555555 & ~inside
    rise = look_up(rises, filled)
    depth = rise.cumsum(dim=1, dtype=torch.int16)
    lowest = depth - rise + look_up(lows, filled)
    never_negative = (lowest.view(torch.int64) & SIGNS == 0).all(dim=1)
    balanced = never_negative & (depth[:, -1] == 0) & (lengths & 1 == 0)
    return OneAnswer(tokens.view(torch.uint8), lengths, UNBALANCED + balanced.long())
