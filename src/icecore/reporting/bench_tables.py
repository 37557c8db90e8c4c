"""Tables of benchmarks, from the rows that `icecore bench --out` stores."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from icecore.reporting.table import Table
from icecore.sweeps.names import TRAINED

KIND_OF = {trainable: kind for kind, trainable in TRAINED.items()}
Row = dict[str, Any]
# Keys of older benchmark files.
RENAMED = {"floor_ms": "lower_bound_ms", "plain_ms": "reference_ms", "share_of_floor": "share_of_lower_bound"}


def bench_table(rows: Sequence[Row], title: str = "") -> Table:
    """Return the table of a benchmark of training speed, language-model speed or precision."""
    rows = [{RENAMED.get(key, key): value for key, value in row.items()} for row in rows]
    if "tokens_per_second" in rows[0]:
        return language_table(rows, title)
    return precision_table(rows, title) if "fp32_accuracy" in rows[0] else speed_table(rows, title)


def speed_table(rows: Sequence[Row], title: str) -> Table:
    """Return ms per step of one seed, how many times as long the others take, and peak memory on a GPU."""
    headings = ("", "ours, ms", "lower bound, ms", "share", "reference, ms", "user's loop, ms", "GFLOP")
    lines = [
        (
            label_of(row),
            three_digits(row["ms_per_seed_step"]),
            three_digits(row["lower_bound_ms"]),
            f"{row['lower_bound_ms'] / row['ms_per_seed_step']:.0%}",
            times(row["reference_ms"], row["ms_per_seed_step"]),
            times(row["huggingface_ms"], row["ms_per_seed_step"]),
            f"{row['gflop']:,.1f}",
        )
        for row in rows
    ]
    if all(row["peak_gb"] is not None for row in rows):
        headings = (*headings, "peak GB")
        lines = [(*line, f"{row['peak_gb']:.1f}") for line, row in zip(lines, rows, strict=True)]
    return Table(title, headings, lines, left=("",))


def language_table(rows: Sequence[Row], title: str) -> Table:
    columns = {
        "lower bound, ms": "lower_bound_ms",
        "reference, ms": "reference_ms",
        "GPT2LMHeadModel, ms": "huggingface_ms",
    }
    lines = [
        (
            f"{KIND_OF[row['trainable']]} {row['width']}, {row['layers']} layers",
            three_digits(row["ms_per_step"]),
            f"{round(row['tokens_per_second'], -3):,.0f}",
            f"{100 * row['share_of_product_rate']:.0f} %",
            *("out of memory" if row[key] is None else three_digits(row[key]) for key in columns.values()),
            "-" if row["peak_gb"] is None else f"{row['peak_gb']:.1f}",
        )
        for row in rows
    ]
    headings = ("", "ms per step", "tokens per second", "share of product rate", *columns, "peak GB")
    return Table(title, headings, lines, left=("",))


def precision_table(rows: Sequence[Row], title: str) -> Table:
    """Return accuracies in % of the same seeds in both precisions; the last column compares seed by seed."""
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
    headings = ("", "steps", "fp32", str(lower), "largest difference per seed")
    return Table(title, headings, lines, left=("",))


def median_and_range(accuracies: list[float]) -> str:
    low, middle, high = (100 * pick(accuracies) for pick in (min, median, max))
    return f"{middle:.2f}" if len(accuracies) == 1 else f"{middle:.2f} ({low:.2f} to {high:.2f})"


def label_of(row: Row) -> str:
    model = row.get("model", "transformer")
    kind = "LSTM" if model == "lstm" else KIND_OF[row["trainable"]]
    kind = kind if model in ("transformer", "lstm") else f"{model} {kind}"
    small = f", batch {row['batch']}" if row.get("batch", 1_000) < 1_000 and row["task"] == "needle" else ""
    return f"{row['task']}, {kind} {row['width']}" + (f", {row['seeds']} seeds" if row["seeds"] > 1 else "") + small


def times(theirs: float, ours: float) -> str:
    return f"{three_digits(theirs)} ({theirs / ours:,.0f}x)"


def three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
