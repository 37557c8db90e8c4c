"""The ladder: tasks ordered by what theory says makes them hard. One file per task."""

from icecore.tasks.base import Task
from icecore.tasks.ladder.parity import Parity

LADDER: tuple[type[Task], ...] = (Parity,)

__all__ = ["LADDER", "Parity"]
