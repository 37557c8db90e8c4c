"""Names of cells, all that tables of stored results need. Nothing here imports torch."""

from dataclasses import dataclass

# Trainable sets, by the paper's names.
TRAINED = {"Random": "embeddings", "Normal": "all"}
PARTS = {"U only": "unembed", "E only": "embed", "E_token & U": "token+unembed"}  # SOURCE: table 2
TRAINABLE_OF = {**TRAINED, **PARTS, "LSTM": "all"}


@dataclass(frozen=True)
class CellName:
    """A cell's name: "needle, Random 1024, linearized"."""

    task: str
    kind: str  # one of TRAINABLE_OF, or another trainable set
    width: int | None = None  # the paper's; a laptop's model may have another
    layers: int | None = None  # if cells differ in it
    variant: str = ""

    @property
    def size(self) -> str:
        layers = "" if self.layers is None else f"x{self.layers}"
        return "" if self.width is None else f"{self.width}{layers}"

    @property
    def column(self) -> str:
        """Return the name without the task: "Random 1024, linearized"."""
        return self.with_variant(f"{self.kind} {self.size}".rstrip())

    @property
    def line(self) -> str:
        """Return the name without task and width: "Random, linearized"."""
        return self.with_variant(self.kind if self.layers is None else f"{self.kind} x{self.layers}")

    def with_variant(self, text: str) -> str:
        return f"{text}, {self.variant}" if self.variant else text

    def __str__(self) -> str:
        return f"{self.task}, {self.column}"
