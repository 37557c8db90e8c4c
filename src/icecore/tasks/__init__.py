"""Tasks, one per file. To add one, write its file and add its class to `TASKS`."""

from icecore.tasks.base import Coordinates, Task, exact_match, token_accuracy
from icecore.tasks.batch import Batch, Item
from icecore.tasks.decimal_addition import DecimalAddition
from icecore.tasks.finite import PairTask
from icecore.tasks.imitation import Imitation
from icecore.tasks.ladder import (
    LADDER,
    BooleanFormula,
    CompositionalRecall,
    Copying,
    Counting,
    Cycles,
    Dyck,
    KHop,
    ModularMultiplication,
    Multiplication,
    MultiQueryRecall,
    Parity,
    SelectiveCopying,
    Sorting,
    SparseParity,
    VectorAddition,
    WordProblem,
)
from icecore.tasks.ladder.base import LadderTask
from icecore.tasks.language import Language
from icecore.tasks.loading import find_task, make_task
from icecore.tasks.memorization import Memorization
from icecore.tasks.modular_addition import ModularAddition
from icecore.tasks.needle import Needle
from icecore.tasks.one_answer import OneAnswerTask
from icecore.tasks.parentheses import Parentheses
from icecore.tasks.plain import PlainTask

TASKS: dict[str, type[Task]] = {
    task.name: task
    for task in (
        ModularAddition,
        Needle,
        DecimalAddition,
        Parentheses,
        Memorization,
        Imitation,
        Language,
        *LADDER,
    )
}

__all__ = [
    "LADDER",
    "TASKS",
    "Batch",
    "BooleanFormula",
    "CompositionalRecall",
    "Coordinates",
    "Copying",
    "Counting",
    "Cycles",
    "DecimalAddition",
    "Dyck",
    "Imitation",
    "Item",
    "KHop",
    "LadderTask",
    "Language",
    "Memorization",
    "ModularAddition",
    "ModularMultiplication",
    "MultiQueryRecall",
    "Multiplication",
    "Needle",
    "OneAnswerTask",
    "PairTask",
    "Parentheses",
    "Parity",
    "PlainTask",
    "SelectiveCopying",
    "Sorting",
    "SparseParity",
    "Task",
    "VectorAddition",
    "WordProblem",
    "exact_match",
    "find_task",
    "make_task",
    "token_accuracy",
]
