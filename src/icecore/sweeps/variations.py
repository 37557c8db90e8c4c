"""What the paper does not have: its cells with one thing changed, to find what a number hangs on."""

import math
from dataclasses import replace

from icecore.sweeps.cells import Cell, Name
from icecore.sweeps.paper import FOUR, WIDTHS, looked_into, table1, table2
from icecore.sweeps.scales import Scale
from icecore.tasks import ModularAddition, Task
from icecore.training.presets import source_of

GAINS = (0.5, 1.0, 2.0, 4.0)
GAIN_WIDTHS = (64, 256, 1024)
HIGHER_RATE = 5  # times the usual one, which is 1e-3
LOWER_RATES = (3e-4, 1e-4)
TABLE6_TOKENS = 97
GPUS = 4


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
    name = Name("", "E_token & U", more="sinusoidal positions")
    return [scale.cell(replace(name, task=task), model, preset) for task in FOUR[1:]]


def modulus(scale: Scale, preset: str) -> list[Cell]:
    """Table 4's modular addition with 97 tokens, for as many epochs. SOURCE: Table 6 counts 97; elsewhere it is 199."""
    cells = []
    for cell in looked_into(scale, preset, ("modular-addition",), 1024):
        assert isinstance(cell.task, ModularAddition)
        task = replace(cell.task, modulus=TABLE6_TOKENS)
        usual = cell.of_one_seed.optimization
        optimization = cell.optimization | {"steps": steps_of_as_many_epochs(cell, task, usual.batch)}
        name = replace(cell.name, more=f"modulus {TABLE6_TOKENS}")
        cells.append(replace(cell, name=name, task=task, optimization=optimization))
    return cells


def steps_of_as_many_epochs(cell: Cell, task: Task, batch: int) -> int:
    """Steps that go through the task's training items as often as the cell's do; of a stream, as many steps."""
    usual = cell.of_one_seed.optimization
    items, others = cell.task.train_set(), task.train_set()
    if items is None or others is None:
        return usual.steps
    return usual.steps // math.ceil(len(items) / usual.batch) * math.ceil(len(others) / batch)


def batches(scale: Scale, preset: str) -> list[Cell]:
    """Tables 1 and 2 with four times the batch, or all training items where they are fewer.

    SOURCE: the released scripts set the batch of one GPU, and Hugging Face's trainer takes all GPUs it sees. On four
    of them a step has 4,000 items where the paper says 1,000, and an epoch of modular addition 3 steps instead of 10.
    """
    cells = []
    for cell in table1(scale, preset) + table2(scale, preset):
        items, batch = cell.task.train_set(), GPUS * cell.of_one_seed.optimization.batch
        if items is not None:
            batch = min(batch, len(items))
        changed = {"batch": batch, "steps": steps_of_as_many_epochs(cell, cell.task, batch)}
        name = replace(cell.name, more=f"batch {batch:,}")
        cells.append(replace(cell, name=name, optimization=cell.optimization | changed))
    return cells


# Of cells of the tables: the same but for one thing, which may be why a number differs.
VARIATIONS = (positions, modulus, batches, rates)
