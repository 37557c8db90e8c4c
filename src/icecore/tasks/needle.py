"""Needle in a haystack: look a value up by its marker."""

import collections
import random
import statistics
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Int32, Int64, Integer
from torch import Tensor

from icecore.errors import require
from icecore.tasks.base import Batch, Item
from icecore.tasks.drawing import SMALL_BOUND, below, small_below
from icecore.tasks.plain import PlainTask, require_test_size


@dataclass(frozen=True)
class Needle(PlainTask):
    """Given marker-value pairs and a query, answer with the value that belongs to the query's marker.

    In words:    a 1 b 2 c 3 d 4 b? -> 2
    As tokens:   128 1 129 2 130 3 131 4 159 -> 2     (0 pads, values from 1, markers, then queries)
    """

    max_pairs: int = 30  # SOURCE: section 4.1; the number of pairs is uniform in 1..max_pairs
    values: int = 127  # SOURCE: appendix D.1.2; values may repeat
    vocabulary: int = 256  # SOURCE: Table 6
    spare_markers: int = 0  # DIFFERS: the scripts have 128..157, the paper's appendix 128..158
    query: Literal["own-token", "marker"] = "own-token"  # DIFFERS: section 4.1 repeats the marker
    test_size: int = 4_000  # items held out; on a small task too many of them bend the stream

    name: ClassVar[str] = "needle"
    presets: ClassVar = {"released": {}, "paper": {"spare_markers": 1, "query": "marker"}}

    def __post_init__(self) -> None:
        require(self.max_pairs >= 1, f"max_pairs must be at least 1, got {self.max_pairs}")
        require_test_size(self.test_size)
        require(self.values >= 1, f"values must be at least 1, got {self.values}")
        require(self.spare_markers >= 0, f"spare_markers must be at least 0, got {self.spare_markers}")
        own_token = self.query == "own-token"
        room = (self.vocabulary - self.first_marker) // (2 if own_token else 1)
        require(
            self.markers <= room,
            f"a vocabulary of {self.vocabulary} has room for {max(room, 0)} markers"
            f"{' and their queries' if own_token else ''} after the padding and {self.values} values, "
            f"got max_pairs {self.max_pairs} with spare_markers {self.spare_markers}: "
            "take fewer pairs or a larger vocabulary",
        )

    @property
    def vocab_size(self) -> int:
        return self.vocabulary

    @property
    def max_length(self) -> int:
        return 2 * self.max_pairs + 1

    @property
    def markers(self) -> int:
        return self.max_pairs + self.spare_markers

    @property
    def first_marker(self) -> int:
        return self.values + 1

    @property
    def first_query(self) -> int:
        return self.first_marker + (self.markers if self.query == "own-token" else 0)

    def plain_item(self, rng: random.Random) -> Item:
        pairs = rng.randint(1, self.max_pairs)
        keys = list(range(self.markers))
        rng.shuffle(keys)
        keys = keys[:pairs]
        values = [rng.randint(1, self.values) for _ in keys]
        asked = rng.choice(keys)
        prompt: list[int] = []
        for key, value in zip(keys, values, strict=True):
            prompt += [self.first_marker + key, value]
        return Item((*prompt, self.first_query + asked), (values[keys.index(asked)],))

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        device = generator.device
        row = torch.arange(count, device=device)
        end = 2 + 2 * below(self.max_pairs, (count,), generator)  # the query's position
        asked = 2 * below(end // 2, (count,), generator)

        draw = small_below if max(self.values, self.markers) <= SMALL_BOUND else below
        shape = self.max_pairs, count
        remaining = torch.arange(self.markers, self.markers - self.max_pairs, -1, device=device)[:, None]
        markers = torch.arange(self.first_marker, self.first_marker + self.markers, device=device)
        tokens = torch.empty((count, self.max_length), dtype=torch.int64, device=device)
        tokens[:, 0:-1:2] = distinct(markers, draw(remaining, shape, generator)).T
        tokens[:, 1::2] = (1 + draw(self.values, shape, generator)).T

        query = tokens[row, asked] + (self.first_query - self.first_marker)
        targets = torch.zeros_like(tokens)
        targets[row, end] = tokens[row, asked + 1]
        past_end = torch.arange(self.max_length, dtype=torch.int16, device=device) - end[:, None].short()
        tokens *= past_end < 0  # several times as fast on the CPU as a masked fill
        tokens[row, end] = query
        return Batch(tokens, targets, past_end == 0)

    def floors(self) -> dict[str, float]:
        items = self.test_items()
        contexts = [item.prompt[1:-1:2] for item in items]
        answers = [item.answer[0] for item in items]
        # The first of equally frequent values; with other ties the same items give .168 to .179.
        most_frequent = [collections.Counter(values).most_common(1)[0][0] for values in contexts]
        return {
            "most_frequent_value": statistics.fmean(
                guess == answer for guess, answer in zip(most_frequent, answers, strict=True)
            ),
            "random_context_value": statistics.fmean(
                values.count(answer) / len(values) for values, answer in zip(contexts, answers, strict=True)
            ),
            # In expectation over the number of pairs, all values taken as different.
            "uniform_guess": statistics.fmean(1 / pairs for pairs in range(1, self.max_pairs + 1)),
        }


def distinct(choices: Int64[Tensor, " choices"], picks: Integer[Tensor, "draws batch"]) -> Int32[Tensor, "draws batch"]:
    """In each column, draws of `choices` without replacement, by picks among those left: a Fisher-Yates shuffle.

    The choices left to a column of the batch are a column of a table.
    """
    draws, count = picks.shape
    index = picks.long().mul_(count).add_(torch.arange(count, device=picks.device))
    table = choices.int().repeat_interleave(count)
    result = torch.empty((draws, count), dtype=torch.int32, device=picks.device)
    for draw in range(draws):
        last = (len(choices) - 1 - draw) * count
        torch.take(table, index[draw], out=result[draw])
        table.put_(index[draw], table[last : last + count].clone())
    return result
