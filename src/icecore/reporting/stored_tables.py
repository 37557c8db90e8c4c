"""Tables of what benches and analyses wrote into `results/`: speed, precision, and accuracy in few directions."""

import json
from pathlib import Path
from statistics import median
from typing import Any

from icecore.errors import InputError
from icecore.reporting.grids import Grid
from icecore.sweeps.cells import TRAINED

KEPT = (10, 20, 50, 100, 200)  # directions of the residual stream
CONTROLS = {"neurons": "200 neurons", "random": "200 random", "untrained": "200 of the untrained"}
REMOVED = {"directions": "without the top 10", "random": "without 10 random"}
KIND_OF = {trainable: kind for kind, trainable in TRAINED.items()}
TASKS = ("modular-addition", "decimal-addition", "parentheses", "needle")


def read_results(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise InputError(f"there is no file {path}")
    return json.loads(path.read_text(encoding="utf-8"))


def bench_grid_of(rows: list[dict[str, Any]]) -> Grid:
    """The rows of a file of `icecore bench`, which are of speed, of language models' speed, or of precision."""
    if "tokens_per_second" in rows[0]:
        return language_grid(rows)
    return precision_grid(rows) if "fp32_accuracy" in rows[0] else speed_grid(rows)


def speed_grid(rows: list[dict[str, Any]]) -> Grid:
    """ms for one step of one seed; peak memory where the device has its own."""
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


def language_grid(rows: list[dict[str, Any]]) -> Grid:
    columns = {"floor, ms": "floor_ms", "plain twin, ms": "plain_ms", "GPT2LMHeadModel, ms": "huggingface_ms"}
    lines = [
        (
            f"{KIND_OF[row['trainable']]} {row['width']}, {row['layers']} layers",
            three_digits(row["ms_per_step"]),
            f"{round(row['tokens_per_second'], -3):,.0f}",
            f"{100 * row['share_of_product_rate']:.0f} %",
            *(three_digits(row[key]) for key in columns.values()),
            "-" if row["peak_gb"] is None else f"{row['peak_gb']:.1f}",
        )
        for row in rows
    ]
    return ("", "ms a step", "tokens a second", "of the product rate", *columns, "peak GB"), lines


def precision_grid(rows: list[dict[str, Any]]) -> Grid:
    """Accuracies in % of the same seeds in both precisions; the last column is of single seeds."""
    (lower,) = {row["precision"] for row in rows}
    lines = [
        (
            label_of(row),
            f"{row['steps']:,}",
            median_and_range(row["fp32_accuracy"]),
            median_and_range(row["accuracy"]),
            f"{100 * max(abs(a - b) for a, b in zip(row['fp32_accuracy'], row['accuracy'], strict=True)):.2f}",
        )
        for row in sorted(rows, key=lambda row: (row["trainable"] == "all", row["width"]))
    ]
    return ("", "steps", "fp32", lower, "largest difference of a seed"), lines


def median_and_range(accuracies: list[float]) -> str:
    low, middle, high = (100 * pick(accuracies) for pick in (min, median, max))
    return f"{middle:.2f}" if len(accuracies) == 1 else f"{middle:.2f} ({low:.2f} to {high:.2f})"


def label_of(row: dict[str, Any]) -> str:
    kind = "LSTM" if row.get("model") == "lstm" else KIND_OF[row["trainable"]]
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
