"""The paper's tables and figures as lists of cells, at a scale and with a preset.

SOURCE: Zhong & Andreas, NeurIPS 2024: tables 1 to 4, 7, 9, figures 6 to 8; settings from appendix D and the released
scripts (`training.presets`).
"""

from dataclasses import replace

from icecore.sweeps.cells import PARTS, TRAINED, Cell, Name
from icecore.sweeps.scales import Scale
from icecore.tasks import Imitation
from icecore.training.presets import source_of

PRESETS = ("released", "readme", "paper")
FOUR = ("modular-addition", "needle", "decimal-addition", "parentheses")
WIDTHS = (16, 32, 64, 128, 256, 512, 1024)  # SOURCE: figure 7
TARGET_WIDTHS = (4, 8, 12, 16, 32, 64, 128)  # SOURCE: figure 6
STUDENTS = {"released": ((256, 3),), "paper": ((512, 3), (512, 1))}  # SOURCE: released script; section 6.2


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
