"""The ladder: tasks that theory orders by difficulty, one file per task."""

from icecore.tasks.base import Task
from icecore.tasks.ladder.boolean_formula import BooleanFormula
from icecore.tasks.ladder.compositional_recall import CompositionalRecall
from icecore.tasks.ladder.copying import Copying
from icecore.tasks.ladder.counting import Counting
from icecore.tasks.ladder.cycles import Cycles
from icecore.tasks.ladder.dyck import Dyck
from icecore.tasks.ladder.k_hop import KHop
from icecore.tasks.ladder.modular_multiplication import ModularMultiplication
from icecore.tasks.ladder.multi_query_recall import MultiQueryRecall
from icecore.tasks.ladder.multiplication import Multiplication
from icecore.tasks.ladder.parity import Parity
from icecore.tasks.ladder.selective_copying import SelectiveCopying
from icecore.tasks.ladder.sorting import Sorting
from icecore.tasks.ladder.sparse_parity import SparseParity
from icecore.tasks.ladder.vector_addition import VectorAddition
from icecore.tasks.ladder.word_problem import WordProblem

LADDER: tuple[type[Task], ...] = (
    Copying,
    SelectiveCopying,
    Sorting,
    Counting,
    MultiQueryRecall,
    CompositionalRecall,
    KHop,
    VectorAddition,
    ModularMultiplication,
    Multiplication,
    SparseParity,
    Parity,
    Dyck,
    BooleanFormula,
    Cycles,
    WordProblem,
)

__all__ = [
    "LADDER",
    "BooleanFormula",
    "CompositionalRecall",
    "Copying",
    "Counting",
    "Cycles",
    "Dyck",
    "KHop",
    "ModularMultiplication",
    "MultiQueryRecall",
    "Multiplication",
    "Parity",
    "SelectiveCopying",
    "Sorting",
    "SparseParity",
    "VectorAddition",
    "WordProblem",
]
