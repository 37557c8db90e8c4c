"""Tables of what benches and analyses wrote into `results/`: ms a step, and accuracy in few directions."""

import json
from pathlib import Path
from typing import Any

from icecore.errors import InputError
from icecore.reporting.grids import Grid
from icecore.sweeps.cells import TRAINED

KEPT = (10, 20, 50, 100, 200)  # directions of the residual stream
CONTROLS = {"neurons": "200 neurons", "random": "200 random", "untrained": "200 of the untrained"}
REMOVED = {"directions": "without the top 10", "random": "without 10 random"}
TASKS = ("modular-addition", "decimal-addition", "parentheses", "needle")


def read_results(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise InputError(f"there is no file {path}")
    return json.loads(path.read_text(encoding="utf-8"))


def speed_grid(path: Path) -> Grid:
    """ms for one step of one seed, of a file of `icecore bench`; peak memory where the device has its own."""
    rows = read_results(path)["rows"]
    columns = {
        "ours": "ms_per_seed_step",
        "floor": "floor_ms",
        "plain twin": "plain_ms",
        "user's loop": "huggingface_ms",
    }
    has_memory = all(row["peak_gb"] is not None for row in rows)
    lines = [
        (
            label_of(row),
            *(three_digits(row[key]) for key in columns.values()),
            *([f"{row['peak_gb']:.1f}"] if has_memory else []),
        )
        for row in rows
    ]
    return ("", *columns, *(["peak GB"] if has_memory else [])), lines


def label_of(row: dict[str, Any]) -> str:
    kinds = {trainable: kind for kind, trainable in TRAINED.items()}
    kind = "LSTM" if row["model"] == "lstm" else kinds[row["trainable"]]
    return f"{row['task']}, {kind} {row['width']}" + (f", {row['seeds']} seeds" if row["seeds"] > 1 else "")


def three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def subspace_grid(folder: Path) -> Grid:
    """Test accuracy in % when the residual stream keeps k directions, or loses 10, at width 1024."""
    return (
        ("", f"k = {KEPT[0]}", *map(str, KEPT[1:]), "all", *CONTROLS.values(), *REMOVED.values()),
        [(task, *subspace_row(read_results(folder / f"{task}-1024.json"))) for task in TASKS],
    )


def subspace_row(stored: dict[str, Any]) -> list[str]:
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
