"""Cells of the paper with one thing changed, to find what a number depends on. Not in the paper."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from icecore.paper import table1, table2, table4
from icecore.paper.accuracy import accuracy_claims
from icecore.paper.cells import PaperCell, Variation, vary
from icecore.paper.experiment import Experiment
from icecore.paper.scales import FOUR, Scale
from icecore.sweeps.names import CellName

if TYPE_CHECKING:
    from icecore.sweeps.cells import Cell
    from icecore.tasks import Task

LOWER_RATES = (3e-4, 1e-4)
TABLE6_TOKENS = 97
GPUS = 4


def rates(scale: Scale, preset: str) -> list[Variation]:
    """Return Normal at learning rates below the scripts' 1e-3. The paper did not use them, so they explain nothing."""
    return [
        vary(
            scale.cell(CellName(task, "Normal", 1024), preset),
            f"lr {rate:g}",
            lambda cell, rate=rate: replace(cell, training=cell.training | {"lr": rate}),
            can_explain=False,
        )
        for task in FOUR
        for rate in LOWER_RATES
    ]


def positions(scale: Scale, preset: str) -> list[Variation]:
    """Return Table 2's last column with sinusoidal frozen positions.

    SOURCE: the released stream scripts freeze positions in two modes: 100 has random ones, 101 sinusoidal ones. The
    paper does not say which its table has.
    """

    def with_sinusoids(cell: "Cell") -> "Cell":
        model: Any = cell.model
        return replace(cell, model=replace(model, position_init="sinusoidal"))

    bases = [cell for cell in table2.cells(scale, preset) if cell.name.kind == "E_token & U"]
    return [vary(base, "sinusoidal positions", with_sinusoids) for base in bases if base.name.task in FOUR[1:]]


def modulus(scale: Scale, preset: str) -> list[Variation]:
    """Return Table 4's modular addition with 97 tokens and equal epochs. SOURCE: Table 6 counts 97; elsewhere 199."""

    def with_fewer_tokens(cell: "Cell") -> "Cell":
        task: Any = cell.task
        task = replace(task, modulus=TABLE6_TOKENS)
        steps = steps_of_as_many_epochs(cell, task, cell.of_one_seed.training.batch)
        return replace(cell, task=task, training=cell.training | {"steps": steps})

    bases = table4.analyzed(scale, preset, ("modular-addition",), 1024)
    return [vary(base, f"modulus {TABLE6_TOKENS}", with_fewer_tokens) for base in bases]


def batches(scale: Scale, preset: str) -> list[Variation]:
    """Return Tables 1 and 2 with four times the batch, or all training items if they are fewer.

    SOURCE: the released scripts set the batch per GPU, and Hugging Face's trainer uses all visible GPUs. With four, a
    step has 4,000 items where the paper says 1,000, and an epoch of modular addition has 3 steps instead of 10.
    """

    def with_larger_batch(cell: "Cell") -> "Cell":
        items, batch = cell.task.train_set(), GPUS * cell.of_one_seed.training.batch
        if items is not None:
            batch = min(batch, len(items))
        changed = {"batch": batch, "steps": steps_of_as_many_epochs(cell, cell.task, batch)}
        return replace(cell, training=cell.training | changed)

    bases = table1.cells(scale, preset) + table2.cells(scale, preset)
    return [vary(base, f"batch x{GPUS}", with_larger_batch) for base in bases]


def steps_of_as_many_epochs(cell: "Cell", task: "Task", batch: int) -> int:
    """Return the steps for as many epochs of the task as the cell has; with streamed data, the cell's steps."""
    usual = cell.of_one_seed.training
    items, others = cell.task.train_set(), task.train_set()
    if items is None or others is None:
        return usual.steps
    return usual.steps // math.ceil(len(items) / usual.batch) * math.ceil(len(others) / batch)


VARIATIONS = (positions, modulus, batches, rates)


def experiment_of(title: str, vary: Callable[[Scale, str], list[Variation]]) -> Experiment:
    def cells(scale: Scale, preset: str) -> list[PaperCell]:
        return [variation.cell for variation in vary(scale, preset)]

    return Experiment(vary.__name__, title, cells, accuracy_claims)


RATES = experiment_of("everything trained, at lower learning rates (not in the paper)", rates)
POSITIONS = experiment_of("E_token & U with sinusoidal positions (a mode of the scripts, not in the paper)", positions)
MODULUS = experiment_of("modular addition with the 97 tokens that Table 6 counts (elsewhere 199)", modulus)
BATCHES = experiment_of("four times the batch, as the scripts would have on four GPUs (not in the paper)", batches)
