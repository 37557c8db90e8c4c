"""Accuracy when the residual stream keeps or loses k directions, at width 1024: are ten enough?

Read from `results/analyses/`, written by `icecore analyze --what causal --out`.
"""

from pathlib import Path
from typing import Any

from icecore.reporting.table import Table
from icecore.store.files import read_json

KEPT = (10, 20, 50, 100, 200)  # directions of the residual stream
CONTROLS = {"neurons": "200 neurons", "random": "200 random", "untrained": "200 of the untrained model"}
REMOVED = {"directions": "without the top 10", "random": "without 10 random"}
TASKS = ("modular-addition", "decimal-addition", "parentheses", "needle")


def directions_table(folder: Path) -> Table:
    """Return test accuracy in %, a row per task."""
    headings = ("", f"k = {KEPT[0]}", *map(str, KEPT[1:]), "all", *CONTROLS.values(), *REMOVED.values())
    rows = [(task, *row_of(read_json(folder / f"{task}-1024.json"))) for task in TASKS]
    return Table("Test accuracy in % when the residual stream keeps or loses k directions", headings, rows, left=("",))


def row_of(stored: dict[str, Any]) -> list[str]:
    curves = {(curve["mode"], curve["basis"]): curve for curve in stored["analyses"]["causal"]["curves"]}

    def accuracy(mode: str, basis: str, count: int) -> str:
        curve = curves[mode, basis]
        return f"{100 * curve['accuracy'][curve['counts'].index(count)]:.1f}"

    everything = curves["keep", "directions"]["counts"][-1]
    return [
        *(accuracy("keep", "directions", count) for count in (*KEPT, everything)),
        *(accuracy("keep", basis, KEPT[-1]) for basis in CONTROLS),
        *(accuracy("remove", basis, KEPT[0]) for basis in REMOVED),
    ]
