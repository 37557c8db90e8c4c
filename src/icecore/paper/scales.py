"""How large the paper's cells are: at its own size, or at a laptop's. Tasks and models are made only with a cell."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from icecore.paper.cells import PaperCell
from icecore.sweeps.names import KINDS, CellName

if TYPE_CHECKING:
    from icecore.models import Model
    from icecore.sweeps.cells import Cell
    from icecore.tasks import Task

PRESETS = ("released", "readme", "paper")
FOUR = ("modular-addition", "needle", "decimal-addition", "parentheses")
WIDTHS = (16, 32, 64, 128, 256, 512, 1024)  # SOURCE: figure 7

Body = Literal["transformer", "lstm", "memorizer"]


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


@dataclass(frozen=True)
class Scale:
    """Tasks that stand for the paper's, a model for each body and width, and how they are trained."""

    name: str
    task: "Callable[[str, str], Task]"  # of a task's name and a preset
    body: "Callable[[Body, int, str], Model]"  # of the paper's width and a preset
    training: "Callable[[str, Model, str], dict[str, Any]]"  # of a task's name, the model and what trains
    language: LanguageScale

    def cell(
        self,
        name: CellName,
        preset: str,
        *,
        width: int | None = None,  # if the name does not say it
        body: Body = "transformer",
        model: dict[str, Any] | None = None,  # settings that differ from the scale's
        is_looked_into: bool = False,
        change: "Callable[[Cell], Cell] | None" = None,
    ) -> PaperCell:
        def make() -> "Cell":
            from icecore.sweeps.cells import Cell

            trainable, of_width = KINDS[name.kind], width or name.width
            assert of_width is not None
            made = replace(self.body(body, of_width, preset), **(model or {}))  # type: ignore[type-var]
            made = self.fitted(made, trainable)
            task, training = self.task(name.task, preset), self.training(name.task, made, trainable)
            cell = Cell(name, task, made, trainable, preset, training, is_looked_into)
            return cell if change is None else change(cell)

        return PaperCell(name, self.name, preset, make)

    def fitted(self, model: "Model", trainable: str) -> "Model":
        """Return the model for what trains: a laptop's frozen unembedding has the gain of width 1024 too."""
        is_narrow = self.name == "laptop" and trainable == "embed"
        return replace(model, init="matched-all") if is_narrow else model  # type: ignore[type-var]

    def with_text(self, folder: Path | None) -> "Scale":
        """Return the same with another prepared text."""
        return self if folder is None else replace(self, language=replace(self.language, folder=str(folder)))


def paper_task(name: str, preset: str) -> "Task":
    """Make the paper's task; one without such a preset is as released."""
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
