"""One cycle or two?"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from icecore.errors import require
from icecore.tasks.base import Coordinates
from icecore.tasks.batch import Batch
from icecore.tasks.drawing import below, distinct_below
from icecore.tasks.ladder.base import USUAL_TEST_SIZE, LadderTask, constant_column, written

MOST_NODES = 1_024
TWO, ONE = 0, 1


@dataclass(frozen=True)
class Cycles(LadderTask):
    """Given the edges of a graph in any order, tell whether it is one cycle or two of half the size.

    In words, 6 nodes:   a-c d-b c-e f-d e-a b-f? -> two      (a c e and b d f)
    As tokens:           0 2 3 1 2 4 5 3 4 0 1 5 6 -> 0       (1: one, 0: two)

    Each edge is two tokens, in either order. Half of the items are one cycle. Every node has two neighbours in both
    cases, so that counts tell nothing. Sensitivity is measured for "is the graph connected?".
    """

    nodes: int = 8
    test_size: int = USUAL_TEST_SIZE

    name: ClassVar[str] = "cycles"
    difficulty_setting: ClassVar = "nodes"
    difficulties: ClassVar = (6, 8, 12, 16, 24, 32)

    def __post_init__(self) -> None:
        require(
            6 <= self.nodes <= MOST_NODES and self.nodes % 2 == 0,
            f"nodes must be even and 6 to {MOST_NODES:,}, for two cycles of at least 3, got {self.nodes}",
        )
        self.require_sizes()

    @property
    def vocab_size(self) -> int:
        return self.nodes + 1

    @property
    def max_length(self) -> int:
        return 2 * self.nodes + 1

    @property
    def item_count(self) -> int:
        """Return a lower bound: the orders of the edges of the single cycles, without their directions."""
        return math.factorial(self.nodes) * math.factorial(self.nodes - 1)

    def coordinates(self) -> Coordinates:
        # Doubling reach in each round; SOURCE: arXiv 2402.09268, with logarithmic depth as the conjectured need.
        return Coordinates(math.ceil(math.log2(self.nodes)), symbols=self.nodes, circuit_class="L")

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        nodes, half = self.nodes, self.nodes // 2
        order = distinct_below(nodes, (count, nodes), generator)
        is_one = below(2, (count, 1), generator)
        of_two = torch.cat([order[:, :half].roll(-1, 1), order[:, half:].roll(-1, 1)], dim=1)
        following = torch.where(is_one == ONE, order.roll(-1, 1), of_two)
        ends = torch.stack([order, following], dim=2)
        turned = below(2, (count, nodes, 1), generator) == 1
        ends = torch.where(turned, ends.flip(2), ends)
        place = distinct_below(nodes, (count, nodes), generator)
        edges = ends.gather(1, place[:, :, None].expand(-1, -1, 2)).flatten(1)
        return written(torch.cat([edges, constant_column(nodes, edges)], dim=1), is_one)

    def solve(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        """Tell whether the graph is connected, for any edges."""
        group = list(range(self.nodes))
        for one, other in zip(prompt[:-1:2], prompt[1:-1:2], strict=True):
            kept, joined = group[one], group[other]
            group = [kept if each == joined else each for each in group]
        return (ONE if len(set(group)) == 1 else TWO,)

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 / 2}
