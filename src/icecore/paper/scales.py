"""Scales of the paper's cells: the paper's or a laptop's. Tasks and models are built only with a cell."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from icecore.paper.cells import PaperCell
from icecore.sweeps.names import TRAINABLE_OF, CellName

if TYPE_CHECKING:
    from icecore.models import Model
    from icecore.sweeps.cells import Cell
    from icecore.tasks import Task

PRESETS = ("released", "unfiltered", "reconstructed", "paper")
FOUR = ("modular-addition", "needle", "decimal-addition", "parentheses")
WIDTHS = (16, 32, 64, 128, 256, 512, 1024)  # SOURCE: figure 7

Body = Literal["transformer", "lstm", "memorizer"]


@dataclass(frozen=True)
class LanguageScale:
    """The text used for TinyStories, and the models and training on it."""

    folder: str
    widths: tuple[int, ...]
    analyzed: int  # the width of Table 5
    window: int
    heads: int
    epochs: float
    batch: int
    lr: float


@dataclass(frozen=True)
class Scale:
    """Tasks, models and training settings of the paper's cells at one size."""

    name: str
    task: "Callable[[str, str], Task]"  # (task name, preset)
    body: "Callable[[Body, int, str], Model]"  # (body, the paper's width, preset)
    training: "Callable[[str, Model, str], dict[str, Any]]"  # (task name, model, trainable)
    language: LanguageScale

    def cell(
        self,
        name: CellName,
        preset: str,
        *,
        width: int | None = None,  # if the name has none
        body: Body = "transformer",
        model: dict[str, Any] | None = None,  # overrides the scale's settings
        is_analyzed: bool = False,
        change: "Callable[[Cell], Cell] | None" = None,
    ) -> PaperCell:
        def make() -> "Cell":
            from icecore.sweeps.cells import Cell

            trainable, of_width = TRAINABLE_OF[name.kind], width or name.width
            assert of_width is not None
            made = replace(self.body(body, of_width, preset), **(model or {}))  # type: ignore[type-var]
            made = self.fitted(made, trainable)
            task, training = self.task(name.task, preset), self.training(name.task, made, trainable)
            cell = Cell(name, task, made, trainable, preset, training, is_analyzed)
            return cell if change is None else change(cell)

        return PaperCell(name, self.name, preset, make)

    def fitted(self, model: "Model", trainable: str) -> "Model":
        """Return the model for a trainable set: a laptop's frozen unembedding also gets the gain of width 1024."""
        is_narrow = self.name == "laptop" and trainable == "embed"
        return replace(model, init="matched-all") if is_narrow else model  # type: ignore[type-var]

    def with_text(self, folder: Path | None) -> "Scale":
        """Return the scale with another prepared text."""
        return self if folder is None else replace(self, language=replace(self.language, folder=str(folder)))


def paper_task(name: str, preset: str) -> "Task":
    """Return the paper's task; if it lacks the preset, the released one."""
    from icecore.tasks import TASKS, make_task

    return make_task(name, preset if preset in TASKS[name].presets else "released")


def paper_body(body: Body, width: int, preset: str) -> "Model":
    from icecore.models import LSTM, Transformer
    from icecore.training.presets import source_of

    return LSTM(width=width) if body == "lstm" else Transformer(width=width, init=source_of(preset))


def laptop_task(name: str, preset: str) -> "Task":
    from icecore.sweeps.laptop import small_task

    return small_task(name, preset)


def laptop_body(body: Body, width: int, _preset: str) -> "Model":
    from icecore.sweeps import laptop

    fixed = {"lstm": laptop.SMALL_LSTM, "memorizer": laptop.SMALL_MEMORIZER}
    return fixed[body] if body in fixed else laptop.small_transformer(width)


def laptop_training(task: str, model: "Model", trainable: str) -> dict[str, Any]:
    from icecore.sweeps.laptop import recipe_for

    return recipe_for(task).training_of(model, trainable)


SCALES = {
    "paper": Scale(
        "paper",
        paper_task,
        paper_body,
        lambda *_: {},
        LanguageScale("data/tinystories", (32, 64, 128, 256, 512, 1024), 512, 512, 8, 20, 20, 6e-4),
    ),
    "laptop": Scale(
        "laptop",
        laptop_task,
        laptop_body,
        laptop_training,
        LanguageScale("data/stories", (16, 32, 64), 64, 80, 4, 60, 8, 3e-3),
    ),
}
