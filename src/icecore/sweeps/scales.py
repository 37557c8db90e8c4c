"""How large the paper's cells are: at its own size, or at a laptop's."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from icecore.models import LSTM, Model, Transformer
from icecore.sweeps import laptop
from icecore.sweeps.cells import KINDS, Cell, Name
from icecore.sweeps.language import LANGUAGE, LanguageScale
from icecore.tasks import TASKS, Task, make_task
from icecore.training.presets import source_of


@dataclass(frozen=True)
class Scale:
    """How large: which tasks stand for the paper's, which model for a width, and how they are trained."""

    task: Callable[[str, str], Task]  # of a task's name and a preset
    transformer: Callable[[int, str], Transformer]  # of the paper's width and a preset
    lstm: LSTM
    memorizer: Callable[[str], Transformer]  # of a preset: what memorizes
    training: Callable[[str, Model, str], dict[str, Any]]  # of a task's name, the model and what trains
    language: LanguageScale
    fitted: Callable[[Model, str], Model] = lambda model, _: model  # the model for what trains

    def cell(self, name: Name, model: Model, preset: str) -> Cell:
        trainable = KINDS[name.kind]
        model = self.fitted(model, trainable)
        settings = self.training(name.task, model, trainable) | ({} if name.rate is None else {"lr": name.rate})
        return Cell(name, self.task(name.task, preset), model, trainable, preset, settings)


def paper_task(name: str, preset: str) -> Task:
    """Tasks that know no such preset are what they are."""
    return make_task(name, preset if preset in TASKS[name].presets else "released")


def paper_transformer(width: int, preset: str) -> Transformer:
    return Transformer(width=width, init=source_of(preset))


SCALES = {
    "paper": Scale(
        paper_task,
        paper_transformer,
        LSTM(width=1024),
        lambda preset: paper_transformer(128, preset),
        lambda *_: {},
        LANGUAGE["paper"],
    ),
    "laptop": Scale(
        laptop.small_task,
        laptop.small_transformer,
        laptop.SMALL_LSTM,
        lambda _: laptop.SMALL_MEMORIZER,
        laptop.small_training,
        LANGUAGE["laptop"],
        laptop.fitted,
    ),
}


def with_text(scale: Scale, folder: Path | None) -> Scale:
    """The same with another prepared text."""
    return scale if folder is None else replace(scale, language=replace(scale.language, folder=str(folder)))
