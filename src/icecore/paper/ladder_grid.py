"""Grid of `reproduce ladder`: which tasks at which difficulties, and the widths. Nothing here imports torch."""

from dataclasses import dataclass
from typing import Any

from icecore.sweeps.names import CellName

TARGET = 99.0  # % of answer tokens right, from which on a width suffices
KINDS = ("Random", "Normal")
WIDTHS = {"paper": (16, 32, 64, 128, 256, 512), "laptop": (8, 16, 32, 64)}
GROUPS = ("Z60", "A4xZ5", "A5")


@dataclass(frozen=True)
class Rung:
    """A task at one difficulty, with a number of layers."""

    task: str
    setting: str  # of the difficulty
    value: int
    layers: int = 2
    more: tuple[tuple[str, Any], ...] = ()  # other settings

    @property
    def settings(self) -> dict[str, Any]:
        return {self.setting: self.value, **dict(self.more)}

    @property
    def line(self) -> str:
        """Return the name of its rungs of all difficulties: "word-problem A5" or "k-hop, 4 layers"."""
        group = dict(self.more).get("group")
        named = self.task if group is None else f"{self.task} {group}"
        return named if self.layers == 2 else f"{named}, {self.layers} layers"

    @property
    def difficulty(self) -> str:
        return f"{self.setting} {self.value}"

    def __str__(self) -> str:
        return f"{self.line}, {self.difficulty}"

    def name(self, kind: str, width: int) -> CellName:
        """Return the name of the cell that trains it: "word-problem, Normal 64x2, length 4, A5"."""
        group = dict(self.more).get("group")
        return CellName(self.task, kind, width, self.layers, ", ".join(filter(None, (self.difficulty, group))))


def rungs(
    task: str, setting: str, values: tuple[int, ...], /, layers: tuple[int, ...] = (2,), **more: Any
) -> tuple[Rung, ...]:
    return tuple(Rung(task, setting, value, depth, tuple(more.items())) for depth in layers for value in values)


RUNGS: dict[str, tuple[Rung, ...]] = {
    "paper": (
        *rungs("copying", "length", (8, 16, 32)),
        *rungs("selective-copying", "letters", (4, 8, 16)),
        *rungs("sorting", "values", (5, 16, 64)),
        *rungs("counting", "symbols", (16, 64, 256)),
        *rungs("multi-query-recall", "pairs", (2, 4, 8)),
        *rungs("compositional-recall", "side", (2, 3, 4)),
        *rungs("k-hop", "hops", (1, 2, 4), layers=(2, 4)),
        *rungs("vector-addition", "dimension", (1, 2, 4)),
        *rungs("modular-multiplication", "modulus", (23, 59, 97)),
        *rungs("multiplication", "bits", (2, 4, 6)),
        *rungs("sparse-parity", "relevant", (2, 3, 4)),
        *rungs("parity", "length", (4, 8, 16)),
        *rungs("dyck", "depth", (3, 4, 8)),
        *rungs("boolean-formula", "depth", (2, 3, 4)),
        *rungs("cycles", "nodes", (6, 8, 12), layers=(2, 4)),
        *(rung for group in GROUPS for rung in rungs("word-problem", "length", (2, 4, 8, 32), group=group)),
    ),
    # Short items and few symbols, so that two cores train all of it in some hours.
    "laptop": (
        *rungs("copying", "length", (4, 8), symbols=8),
        *rungs("selective-copying", "letters", (2, 4), length=12, symbols=8),
        *rungs("sorting", "values", (5, 10), length=6),
        *rungs("counting", "symbols", (4, 16), length=16),
        *rungs("multi-query-recall", "pairs", (2, 4), spacing=6, keys=16, values=16),
        *rungs("compositional-recall", "side", (2, 3), keys=8, values=16),
        *rungs("k-hop", "hops", (1, 2), layers=(2, 4), length=24),
        *rungs("vector-addition", "dimension", (1, 2), modulus=23),
        *rungs("modular-multiplication", "modulus", (23, 59)),
        *rungs("multiplication", "bits", (2, 3)),
        *rungs("sparse-parity", "relevant", (2, 3), length=10),
        *rungs("parity", "length", (4, 8)),
        *rungs("dyck", "depth", (3, 4), length=16),
        *rungs("boolean-formula", "depth", (2, 3)),
        *rungs("cycles", "nodes", (6, 8), layers=(2, 4)),
        *(rung for group in GROUPS for rung in rungs("word-problem", "length", (2, 4), group=group)),
    ),
}
