"""`icecore bench`: speed, each figure beside what it is compared with."""

import dataclasses
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from icecore.cli.output import JSON_OPTION, print_json, print_table, with_progress
from icecore.cli.settings import checked_task
from icecore.errors import require

if TYPE_CHECKING:
    import torch

    from icecore.bench.train import Case
    from icecore.training import Precision

Row = TypeVar("Row")  # a dataclass of one line of a bench


class What(StrEnum):
    data = "data"
    train = "train"
    precision = "precision"
    profile = "profile"
    language = "language"


ON_A_DEVICE = ("device", "precision", "out")
FLAGS = {  # that are not of all
    What.data: (),
    What.train: ("task", "width", "seconds", *ON_A_DEVICE),
    What.precision: ("task", "steps", *ON_A_DEVICE),
    What.profile: ("task", "width", *ON_A_DEVICE),
    What.language: ("width", "layers", "seconds", *ON_A_DEVICE),
}


def command(
    context: typer.Context,
    what: What = typer.Option(
        What.train,
        help="train: a training step. data: the sampling of training items. precision: whether the same seeds end "
        "alike in fp32 and in --precision (bf16). profile: where a step's time goes, by kind of kernel, ours and the "
        "plain twin's. language: a step of language modeling, in tokens a second.",
    ),
    task: str | None = typer.Option(None, help="This task alone (precision: default needle)."),
    width: int | None = typer.Option(None, help="Of train, profile and language: this width alone."),
    layers: int | None = typer.Option(None, min=1, help="Of language: so many layers."),
    steps: int = typer.Option(1000, min=1, help="Of precision: how long to train."),
    device: str = typer.Option("auto", help="auto, cpu or cuda."),
    precision: str = typer.Option("auto", help="auto, fp32, tf32 or bf16."),
    seconds: float = typer.Option(1.0, min=0.0, help="Of train and language: about how long to run each way of a row."),
    out: Path | None = typer.Option(None, help="Also write the JSON here, with commit, command and device."),
    json: bool = JSON_OPTION,
) -> None:
    """Time icecore against its plain twins, in one run on this machine.

    For a training step, beside ours: the floor (its matrix products alone, measured at their shapes), the plain twin
    (the model as it is written, float32, padded), and a user's own loop (GPT2LMHeadModel or torch's LSTM, float32,
    padded, items from plain Python; needs the extra huggingface). All are ms for one step of one seed.
    """
    from icecore.process import settle
    from icecore.store import remember_source, require_writable

    for flag in ("task", "width", "layers", "steps", "seconds", *ON_A_DEVICE):
        source = context.get_parameter_source(flag)
        is_given = source is not None and source.name == "COMMANDLINE"
        require(not is_given or flag in FLAGS[what], f"--{flag} is not of --what {what}; drop it")
    if out is not None:
        require_writable(out)
    settle()
    remember_source()
    if what is What.data:
        bench_data(json)
    elif what is What.precision:
        bench_precision(task or "needle", steps, device, precision, out, json)
    elif what is What.language:
        bench_language(width, layers, device, precision, seconds, out, json)
    elif what is What.profile:
        bench_profile(task, width, device, precision, out, json)
    else:
        bench_train(task, width, device, precision, seconds, out, json)


def bench_data(json: bool) -> None:
    from icecore.bench.data import bench_data, streaming_tasks

    rows = list(with_progress(bench_data(), len(streaming_tasks()), "timing data"))
    if json:
        print_json({"rows": [dataclasses.asdict(row) | {"ratio": row.ratio} for row in rows]})
        return
    print_table(
        "Training items sampled per second on the CPU",
        {"task": "left", "tensors": "right", "plain Python": "right", "ratio": "right"},
        ((row.task, f"{row.items_per_s:,.0f}", f"{row.python_items_per_s:,.0f}", f"{row.ratio:.1f}") for row in rows),
    )


def what_to_time(
    task: str | None, width: int | None, device: str, precision: str
) -> "tuple[torch.device, Precision, list[Case]]":
    from icecore.bench.train import cases_for
    from icecore.training import pick_device, pick_precision

    if task is not None:
        checked_task(task, "released", {})
    where = pick_device(device)
    return where, pick_precision(precision, where), cases_for(where, task, width)


def kept_rows(made: Iterator[Row], total: int, label: str, device: str, out: Path | None, json: bool) -> list[Row]:
    """The rows as they come, each written to `out` at once; with `json`, printed in the end."""
    from icecore.store import provenance, write_json

    rows: list[Row] = []
    named: list[dict[str, Any]] = []
    for row in with_progress(made, total, label):
        rows.append(row)
        named.append(dataclasses.asdict(row))  # type: ignore[call-overload]
        if out is not None:
            write_json(out, {**provenance(device), "rows": named})
    if json:
        print_json({"device": device, "rows": named})
    return rows


def bench_train(
    task: str | None, width: int | None, device: str, precision: str, seconds: float, out: Path | None, json: bool
) -> None:
    from icecore.bench.train import bench_train
    from icecore.training import device_name

    where, chosen, cases = what_to_time(task, width, device, precision)
    made = bench_train(cases, where, chosen, seconds)
    rows = kept_rows(made, len(cases), "timing steps", device_name(where), out, json)
    if json:
        return

    def times(baseline: float, ours: float) -> str:
        return f"{baseline:,.1f} ({baseline / ours:,.0f}x)"

    print_table(
        f"ms for one training step of one seed, {chosen}, on {device_name(where)}",
        {
            "task": "left",
            "model": "left",
            "width": "right",
            "trained": "left",
            "seeds": "right",
            "ours": "right",
            "peak GB": "right",
            "GFLOP": "right",
            "floor": "right",
            "share": "right",
            "plain twin": "right",
            "user's loop": "right",
        },
        (
            (
                row.task,
                row.model,
                str(row.width),
                row.trainable,
                str(row.seeds),
                f"{row.ms_per_seed_step:,.3f}",
                "" if row.peak_gb is None else f"{row.peak_gb:.2f}",
                f"{row.gflop:,.1f}",
                f"{row.floor_ms:,.3f}",
                f"{row.share_of_floor:.0%}",
                times(row.plain_ms, row.ms_per_seed_step),
                times(row.huggingface_ms, row.ms_per_seed_step),
            )
            for row in rows
        ),
    )


def bench_language(
    width: int | None,
    layers: int | None,
    device: str,
    precision: str,
    seconds: float,
    out: Path | None,
    json: bool,
) -> None:
    from icecore.bench.language import bench_language, cases_for
    from icecore.training import device_name, pick_device, pick_precision

    where = pick_device(device)
    chosen = pick_precision(precision, where)
    cases = cases_for(where, width, layers)
    made = bench_language(cases, where, chosen, seconds)
    rows = kept_rows(made, len(cases), "timing steps of language modeling", device_name(where), out, json)
    if json:
        return
    print_table(
        f"One training step of language modeling, {chosen}, on {device_name(where)}",
        {
            "width": "right",
            "layers": "right",
            "trained": "left",
            "tokens a step": "right",
            "ms": "right",
            "tokens/s": "right",
            "peak GB": "right",
            "GFLOP": "right",
            "share of the product rate": "right",
            "floor, ms": "right",
            "plain twin, ms": "right",
            "GPT2LMHeadModel, ms": "right",
        },
        (
            (
                str(row.width),
                str(row.layers),
                row.trainable,
                f"{row.tokens:,}",
                f"{row.ms_per_step:,.2f}",
                f"{row.tokens_per_second:,.0f}",
                "" if row.peak_gb is None else f"{row.peak_gb:.2f}",
                f"{row.gflop:,.0f}",
                f"{row.share_of_product_rate:.0%}",
                f"{row.floor_ms:,.2f}",
                *("no room" if ms is None else f"{ms:,.1f}" for ms in (row.plain_ms, row.huggingface_ms)),
            )
            for row in rows
        ),
    )


def bench_precision(task: str, steps: int, device: str, precision: str, out: Path | None, json: bool) -> None:
    from icecore.bench.precision import bench_precision, pairs
    from icecore.training import device_name, pick_device, pick_precision

    where = pick_device(device)
    chosen = pick_precision(precision, where)
    require(chosen != "fp32", "--what precision compares fp32 with another precision, which needs a GPU")
    made = bench_precision(task, steps, device, chosen)
    rows = kept_rows(made, len(pairs()), "training twice", device_name(where), out, json)
    if json:
        return

    def shown(values: list[float]) -> str:
        return " ".join(f"{value:.3f}" for value in values)

    print_table(
        f"{task}, {steps:,} steps, test accuracy of each seed, on {device_name(where)}",
        {"width": "right", "trained": "left", "fp32": "left", str(chosen): "left", "largest difference": "right"},
        (
            (
                str(row.width),
                row.trainable,
                shown(row.fp32_accuracy),
                shown(row.accuracy),
                f"{max(abs(a - b) for a, b in zip(row.fp32_accuracy, row.accuracy, strict=True)):.3f}",
            )
            for row in rows
        ),
    )


def bench_profile(
    task: str | None, width: int | None, device: str, precision: str, out: Path | None, json: bool
) -> None:
    from icecore.bench.profile import profile_case
    from icecore.training import device_name

    where, chosen, cases = what_to_time(task, width, device, precision)
    made = (found for case in cases for found in profile_case(case, where, chosen))
    profiles = kept_rows(made, 2 * len(cases), "profiling steps", device_name(where), out, json)
    if json:
        return
    for plain, ours in zip(profiles[::2], profiles[1::2], strict=True):
        kinds = list(dict.fromkeys([*ours.by_kind, *plain.by_kind]))
        print_table(
            f"us of one step by kind of kernel: {ours.task}, {ours.model} {ours.width}, {ours.trainable} trained, "
            f"seeds: {ours.seeds}, on {device_name(where)}",
            {"": "left", f"plain twin, {plain.precision}": "right", f"ours, {ours.precision}": "right"},
            [
                *((kind, f"{plain.by_kind.get(kind, 0):,.0f}", f"{ours.by_kind.get(kind, 0):,.0f}") for kind in kinds),
                ("all kernels", *(f"{sum(way.by_kind.values()):,.0f}" for way in (plain, ours))),
                ("wall", *(f"{way.wall_us:,.0f}" for way in (plain, ours))),
            ],
        )
