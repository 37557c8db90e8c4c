"""The paper's tables and figures as named lists of cells, at its own size and at a laptop's.

SOURCE: Zhong & Andreas, NeurIPS 2024: tables 1 to 5, 7, 9, figures 4, 6 to 8; settings from appendix D and the released
scripts (`training.presets`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from icecore.models import LSTM, Model, Transformer
from icecore.sweeps import language, laptop
from icecore.sweeps.cells import KINDS, PARTS, TRAINED, Cell, Name
from icecore.sweeps.language import LANGUAGE, LanguageScale
from icecore.tasks import TASKS, Imitation, ModularAddition, Task, make_task
from icecore.training.presets import source_of

PRESETS = ("released", "readme", "paper")
FOUR = ("modular-addition", "needle", "decimal-addition", "parentheses")
WIDTHS = (16, 32, 64, 128, 256, 512, 1024)  # SOURCE: figure 7
TARGET_WIDTHS = (4, 8, 12, 16, 32, 64, 128)  # SOURCE: figure 6
STUDENTS = {"released": ((256, 3),), "paper": ((512, 3), (512, 1))}  # SOURCE: released script; section 6.2
GAINS = (0.5, 1.0, 2.0, 4.0)
GAIN_WIDTHS = (64, 256, 1024)
FROZEN_POSITIONS = "E_token & U"
TABLE6_TOKENS = 97
GPUS = 4
HIGHER_RATE = 5  # times the usual one, which is 1e-3
LOWER_RATES = (3e-4, 1e-4)


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


def table1(scale: Scale, preset: str) -> list[Cell]:
    """Test accuracy of random, trained and recurrent networks."""
    cells = []
    for task in FOUR:
        for kind, width in (("Random", 1024), ("Random", 16), ("Normal", 1024), ("Normal", 16)):
            cells.append(scale.cell(Name(task, kind, width), scale.transformer(width, preset), preset))
        cells.append(scale.cell(Name(task, "LSTM", 1024), scale.lstm, preset))
    return cells


def table2(scale: Scale, preset: str) -> list[Cell]:
    """Accuracy when still more is frozen."""
    model = scale.transformer(1024, preset)
    return [scale.cell(Name(task, part), model, preset) for task in FOUR for part in PARTS]


def table3(scale: Scale, preset: str) -> list[Cell]:
    """Memorization: bits a parameter. Figure 8 is the same runs on their way."""
    return [scale.cell(Name("memorization", kind, 128), scale.memorizer(preset), preset) for kind in reversed(TRAINED)]


def table4(scale: Scale, preset: str) -> list[Cell]:
    """Variance explained by 10 directions, width 1024; of memorization 128."""
    of_four = looked_into(scale, preset, (FOUR[0], FOUR[2], FOUR[1], FOUR[3]), 1024)
    return of_four + [replace(cell, is_looked_into=True) for cell in table3(scale, preset)]


def table7(scale: Scale, preset: str) -> list[Cell]:
    """The same at width 512."""
    return looked_into(scale, preset, (FOUR[2], FOUR[1], FOUR[3]), 512)


def looked_into(scale: Scale, preset: str, tasks: tuple[str, ...], width: int) -> list[Cell]:
    return [
        replace(scale.cell(Name(task, kind, width), scale.transformer(width, preset), preset), is_looked_into=True)
        for task in tasks
        for kind in reversed(TRAINED)
    ]


def table9(scale: Scale, preset: str) -> list[Cell]:
    """The linearized transformer: attention is a prefix sum. The paper does not say what trained: both are here."""
    model = replace(scale.transformer(512, preset), attention="prefix-sum")
    return [
        scale.cell(Name(task, kind, 512, more="linearized"), model, preset) for kind in TRAINED for task in FOUR[1:]
    ]


def fig6(scale: Scale, preset: str) -> list[Cell]:
    """KL divergence of circuit imitation against the target's width; students as the scripts or the text have them."""
    cells = []
    task = scale.task("imitation", preset)
    assert isinstance(task, Imitation)
    for width, layers in STUDENTS[source_of(preset)]:
        student = replace(scale.transformer(width, preset), layers=layers)
        for kind in TRAINED:
            cell = scale.cell(Name("imitation", kind, width, layers), student, preset)
            cells += [
                replace(
                    cell,
                    name=replace(cell.name, task=f"imitation of {target}"),
                    task=replace(task, target_width=target),
                )
                for target in TARGET_WIDTHS
            ]
    return cells


def fig7(scale: Scale, preset: str) -> list[Cell]:
    """Accuracy against width."""
    return [
        scale.cell(Name(task, kind, width), scale.transformer(width, preset), preset)
        for task in (*FOUR[1:], FOUR[0])
        for kind in TRAINED
        for width in WIDTHS
    ]


def gain(scale: Scale, preset: str) -> list[Cell]:
    """Accuracy over width and gain of the initial body; not in the paper."""
    cells = []
    for task in FOUR:
        for width in GAIN_WIDTHS:
            base = scale.transformer(width, preset)
            for factor in GAINS:
                name = Name(task, "Random", width, more=f"gain {factor:g}")
                cells.append(scale.cell(name, replace(base, gain=factor), preset))
    return cells


def init(scale: Scale, preset: str) -> list[Cell]:
    """Random bodies narrower than 1024, as the scripts initialize them and with the gain of 1024; not in the paper.

    Needle with a higher rate as well, of both: what a width fails at may be the rate's doing.
    """
    cells = []
    for task in FOUR:
        for kind in (source_of(preset), "matched"):
            for width in WIDTHS[:-1]:
                model = replace(scale.transformer(width, preset), init=kind)
                name = Name(task, "Random", width, more=kind)
                cell = scale.cell(name, model, preset)
                cells.append(cell)
                if task == "needle":
                    rate = HIGHER_RATE * cell.of_one_seed.optimization.lr
                    cells.append(scale.cell(replace(name, rate=rate), model, preset))
    return cells


def rates(scale: Scale, preset: str) -> list[Cell]:
    """Everything trained at lower rates than the scripts' 1e-3: is what width 1024 fails at the rate's doing?"""
    model = scale.transformer(1024, preset)
    return [scale.cell(Name(task, "Normal", 1024, rate=rate), model, preset) for task in FOUR for rate in LOWER_RATES]


def positions(scale: Scale, preset: str) -> list[Cell]:
    """Table 2's last column with sines and cosines as the frozen positions.

    SOURCE: the released stream scripts freeze positions in two modes, 100, where they are random, and 101, where they
    are these. The paper does not say which its table has.
    """
    model = replace(scale.transformer(1024, preset), position_init="sinusoidal")
    name = Name("", FROZEN_POSITIONS, more="sinusoidal positions")
    return [scale.cell(replace(name, task=task), model, preset) for task in FOUR[1:]]


def modulus(scale: Scale, preset: str) -> list[Cell]:
    """Table 4's modular addition with 97 tokens, for as many epochs. SOURCE: Table 6 counts 97; elsewhere it is 199."""
    cells = []
    for cell in looked_into(scale, preset, ("modular-addition",), 1024):
        assert isinstance(cell.task, ModularAddition)
        task = replace(cell.task, modulus=TABLE6_TOKENS)
        optimization = cell.optimization | {"steps": steps_of_as_many_epochs(cell, task)}
        name = replace(cell.name, more=f"modulus {TABLE6_TOKENS}")
        cells.append(replace(cell, name=name, task=task, optimization=optimization))
    return cells


def steps_of_as_many_epochs(cell: Cell, task: Task, times_the_batch: int = 1) -> int:
    """Steps that go through the task's training items as often as the cell's do; of a stream, as many steps."""
    usual = cell.of_one_seed.optimization

    def an_epoch(of: Task, batch: int) -> int:
        items = of.train_set()
        return 1 if items is None else math.ceil(len(items) / batch)

    epochs = usual.steps // an_epoch(cell.task, usual.batch)
    return epochs * an_epoch(task, times_the_batch * usual.batch)


def batches(scale: Scale, preset: str) -> list[Cell]:
    """Tables 1 and 2 with four times the batch.

    SOURCE: the released scripts set the batch of one GPU, and Hugging Face's trainer takes all GPUs it sees. On four
    of them a step has 4,000 items where the paper says 1,000, and an epoch of modular addition 3 steps instead of 10.
    """
    cells = []
    for cell in table1(scale, preset) + table2(scale, preset):
        batch = GPUS * cell.of_one_seed.optimization.batch
        changed = {"batch": batch, "steps": steps_of_as_many_epochs(cell, cell.task, GPUS)}
        name = replace(cell.name, more=f"batch {batch:,}")
        cells.append(replace(cell, name=name, optimization=cell.optimization | changed))
    return cells


# Of cells of the tables: the same but for one thing, which may be why a number differs.
VARIATIONS = (positions, modulus, batches, rates)


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
