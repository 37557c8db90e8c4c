"""Figure 4, Table 5 and what Figure 5 samples from: language models on a text that was prepared.

DIFFERS: the paper trains 5 epochs of all of TinyStories, 2 GB. Of a smaller text a model would have learned too
little after 5, so it is trained for more, and its best validation loss on the way counts.
"""

from dataclasses import dataclass, replace

from icecore.models import Transformer
from icecore.store import Record
from icecore.sweeps.cells import TRAINED, Cell, Name
from icecore.tasks import Language, Task
from icecore.training import Runs
from icecore.training.presets import epochs_in_steps, preset_optimization, source_of

LAYERS = (2, 4)  # SOURCE: figure 4
LOOKED_INTO = 4  # layers of table 5's models
EVALUATIONS = 20  # during training: among them is the best


@dataclass(frozen=True)
class LanguageScale:
    """Which text stands for TinyStories, and which models are trained on it, for how long."""

    folder: str
    widths: tuple[int, ...]
    looked_into: int  # the width of table 5
    window: int
    heads: int
    epochs: float
    batch: int
    lr: float


LANGUAGE = {
    "paper": LanguageScale("data/tinystories", (32, 64, 128, 256, 512, 1024), 512, 512, 8, 20, 20, 6e-4),
    "laptop": LanguageScale("data/stories", (16, 32, 64), 64, 80, 4, 60, 8, 3e-3),
}


def fig4(scale: LanguageScale, preset: str) -> list[Cell]:
    """Validation loss against width."""
    task = Language(scale.folder, scale.window)
    return [
        language_cell(scale, task, kind, width, layers, preset)
        for layers in LAYERS
        for kind in TRAINED
        for width in scale.widths
    ]


def table5(scale: LanguageScale, preset: str) -> list[Cell]:
    """Variance explained by 10 directions."""
    task = Language(scale.folder, scale.window)
    cells = [language_cell(scale, task, kind, scale.looked_into, LOOKED_INTO, preset) for kind in reversed(TRAINED)]
    return [replace(cell, is_looked_into=True) for cell in cells]


def language_cell(scale: LanguageScale, task: Language, kind: str, width: int, layers: int, preset: str) -> Cell:
    model = Transformer(width, layers, scale.heads, init=source_of(preset))
    base = preset_optimization(task, model, preset)
    steps = epochs_in_steps(scale.epochs, task, scale.batch)
    optimization = {
        "steps": steps,
        "batch": scale.batch,
        "lr": scale.lr,
        "warmup_steps": min(base.warmup_steps, steps // 10),
    }
    return Cell(Name("language", kind, width, layers), task, model, TRAINED[kind], preset, optimization)


def with_text(runs: Runs, records: list[Record]) -> list[Record]:
    """The records; those of language modeling with how much text there was, and how often it was read."""
    task, optimization = runs.config.task, runs.config.optimization
    if not isinstance(task, Language):
        return records
    tokens = {split: len(task.tokens_of(split)) for split in ("train", "validation")}
    epochs = round(optimization.steps * optimization.batch * task.window / tokens["train"], 2)
    return [{**record, "text": {"tokens": tokens, "epochs": epochs}} for record in records]


def evaluate_every(task: Task, steps: int) -> int | None:
    """So often the validation loss is measured; None: of other tasks, as often as the loop sees fit."""
    return max(1, steps // EVALUATIONS) if isinstance(task, Language) else None
