"""What can be named: the paper's tables and figures, and variations of them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from icecore.sweeps import language
from icecore.sweeps.cells import Cell, Name
from icecore.sweeps.paper import fig6, fig7, table1, table2, table3, table4, table7, table9
from icecore.sweeps.scales import SCALES, Scale, with_text
from icecore.sweeps.variations import batches, gain, init, modulus, positions, rates


@dataclass(frozen=True)
class Entry:
    """A table or figure. Without `cells`, `missing` says what it waits for."""

    title: str
    cells: Callable[[Scale, str], list[Cell]] | None = None
    missing: str = ""
    needs_text: bool = False  # cells are of a prepared text
    columns: Literal["model", "width", "more"] = "model"  # of its table, which has a row for the rest of a cell's name

    def place(self, name: Name) -> tuple[str, str]:
        """A cell's row and column in the table."""
        if self.columns == "width":
            return f"{name.task}, {name.line}", str(name.width)
        if self.columns == "more":
            return str(replace(name, more="")), name.more
        return name.task, name.column

    def at(self, scale: str, preset: str, text: Path | None = None) -> list[Cell]:
        """Its cells at a scale, if it has any; `text` is another prepared text than the scale's."""
        return [] if self.cells is None else self.cells(with_text(SCALES[scale], text), preset)


OF_ONE_RUN = "it shows one run: icecore analyze RUN --figures DIR draws it"
ENTRIES = {
    "table1": Entry("test accuracy: Random, Normal, LSTM", table1),
    "table2": Entry("accuracy when other parts are frozen too", table2),
    "table3": Entry("memorization: bits a parameter", table3),
    "table4": Entry("variance explained by 10 directions, width 1024 (memorization 128)", table4),
    "table5": Entry(
        "the same for language modeling", lambda scale, preset: language.table5(scale.language, preset), needs_text=True
    ),
    "table6": Entry("numbers of parameters", lambda *_: []),  # nothing to train
    "table7": Entry("variance explained by 10 directions, width 512", table7),
    "table9": Entry("linearized attention", table9),
    "fig2": Entry("attention maps of needle", missing=OF_ONE_RUN),
    "fig3": Entry("embeddings of modular addition", missing=OF_ONE_RUN),
    "fig4": Entry(
        "language-model loss against width",
        lambda scale, preset: language.fig4(scale.language, preset),
        needs_text=True,
        columns="width",
    ),
    "fig5": Entry("samples of language models", missing="it shows samples: icecore sample RUN writes them"),
    "fig6": Entry("circuit imitation: KL divergence against the target's width", fig6),
    "fig7": Entry("accuracy against width", fig7, columns="width"),
    "fig8": Entry("accuracy during memorization", table3),
    "init": Entry(
        "what the width hides: narrow bodies with the gain of 1024 (not in the paper)", init, columns="width"
    ),
    "rates": Entry("everything trained, at lower learning rates (not in the paper)", rates),
    "positions": Entry("E_token & U around sinusoidal positions (a mode of the scripts, not in the paper)", positions),
    "modulus": Entry("modular addition with the 97 tokens that Table 6 counts (elsewhere 199)", modulus),
    "batches": Entry("four times the batch, as the scripts would have on four GPUs (not in the paper)", batches),
    "gain": Entry("accuracy over width and gain (not in the paper)", gain, columns="more"),
}
