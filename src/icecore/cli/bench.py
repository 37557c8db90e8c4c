"""`icecore bench`: speed, beside lower bounds and references."""

import dataclasses
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from icecore.cli.options import DEVICE, OUTPUT_PANEL, RUN_PANEL
from icecore.cli.output import JSON_OPTION, print_json, print_table, with_progress
from icecore.cli.settings import checked_task
from icecore.errors import require, unknown_name
from icecore.reporting.bench_tables import bench_table
from icecore.reporting.table import Table

if TYPE_CHECKING:
    import torch

    from icecore.bench.train import Case
    from icecore.training import Precision

Row = TypeVar("Row")  # a dataclass: one row of a bench


class What(StrEnum):
    data = "data"
    train = "train"
    precision = "precision"
    profile = "profile"
    language = "language"


ON_A_DEVICE = ("device", "precision", "out")
FLAGS = {  # those that not every --what takes
    What.data: (),
    What.train: ("task", "model", "width", "seconds", *ON_A_DEVICE),
    What.precision: ("task", "steps", *ON_A_DEVICE),
    What.profile: ("task", "model", "width", *ON_A_DEVICE),
    What.language: ("width", "layers", "seconds", *ON_A_DEVICE),
}


def command(
    context: typer.Context,
    what: What = typer.Option(
        What.train, metavar="NAME", help="data, train, precision, profile or language; see above."
    ),
    task: str | None = typer.Option(
        None, help="For train, precision and profile: only this task. Default for precision: needle."
    ),
    model: str | None = typer.Option(None, help="For train and profile: only this body, such as llama or mamba."),
    width: int | None = typer.Option(None, help="For train, profile and language: only this width."),
    layers: int | None = typer.Option(None, min=1, help="For language: number of layers."),
    steps: int = typer.Option(1000, min=1, help="For precision: training steps."),
    device: str = DEVICE,
    precision: str = typer.Option("auto", help="auto, fp32, tf32 or bf16.", rich_help_panel=RUN_PANEL),
    seconds: float = typer.Option(
        1.0, min=0.0, help="For train and language: about how long to time each implementation."
    ),
    out: Path | None = typer.Option(
        None, help="Also write the JSON to this file, with commit, command and device.", rich_help_panel=OUTPUT_PANEL
    ),
    json: bool = JSON_OPTION,
) -> None:
    """Time training steps beside a lower bound and references.

    [bold]Examples[/bold]

    icecore bench --task needle --width 64
    icecore bench --model mamba --width 64
    icecore bench --what profile --task needle --width 64
    icecore bench --what language --out language.json

    [bold]train[/bold]: a training step, in ms per step and seed. Beside it: the lower bound (its matrix products
    alone, measured at their shapes), the reference implementation (the plain model, float32, padded), and a user's
    own loop (GPT2LMHeadModel, LlamaForCausalLM, MambaForCausalLM or torch's LSTM, for other bodies the plain model;
    float32, padded, items from plain Python; needs the extra huggingface).

    [bold]data[/bold]: sampling of training items. [bold]precision[/bold]: final accuracy of the same seeds in fp32 and
    in --precision (bf16). [bold]profile[/bold]: time of a step by kind of kernel, ours and the reference's.
    [bold]language[/bold]: a training step of language modeling, in tokens per second.
    """
    from icecore.process import configure_process
    from icecore.store import remember_source, require_writable

    for flag in ("task", "model", "width", "layers", "steps", "seconds", *ON_A_DEVICE):
        source = context.get_parameter_source(flag)
        is_given = source is not None and source.name == "COMMANDLINE"
        require(not is_given or flag in FLAGS[what], f"--{flag} does not apply to --what {what}; drop it")
    if out is not None:
        require_writable(out)
    configure_process()
    remember_source()
    if what is What.data:
        bench_data(json)
    elif what is What.precision:
        bench_precision(task or "needle", steps, device, precision, out, json)
    elif what is What.language:
        bench_language(width, layers, device, precision, seconds, out, json)
    elif what is What.profile:
        bench_profile(task, model, width, device, precision, out, json)
    else:
        bench_train(task, model, width, device, precision, seconds, out, json)


def bench_data(json: bool) -> None:
    from icecore.bench.data import bench_data, streaming_tasks

    rows = list(with_progress(bench_data(), len(streaming_tasks()), "timing data"))
    if json:
        print_json({"rows": [dataclasses.asdict(row) | {"ratio": row.ratio} for row in rows]})
        return
    cells = [
        (row.task, f"{row.items_per_s:,.0f}", f"{row.python_items_per_s:,.0f}", f"{row.ratio:.1f}") for row in rows
    ]
    headings = ("task", "tensors", "plain Python", "ratio")
    print_table(Table("Training items sampled per second on the CPU", headings, cells, left=("task",)))


def what_to_time(
    task: str | None, model: str | None, width: int | None, device: str, precision: str
) -> "tuple[torch.device, Precision, list[Case]]":
    from icecore.bench.train import cases_for
    from icecore.models import MODELS
    from icecore.training import pick_device, pick_precision

    if task is not None:
        checked_task(task, "released", {})
    if model is not None and model not in MODELS:
        raise unknown_name("model", model, MODELS)
    where = pick_device(device)
    return where, pick_precision(precision, where), cases_for(where, task, width, model)


def kept_rows(
    made: Iterator[Row], total: int, label: str, device: str, out: Path | None, json: bool
) -> tuple[list[Row], list[dict[str, Any]]]:
    """Return the rows, and as dicts. `out` is rewritten after each row; `json` prints all of them at the end."""
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
    return rows, named


def bench_train(
    task: str | None,
    model: str | None,
    width: int | None,
    device: str,
    precision: str,
    seconds: float,
    out: Path | None,
    json: bool,
) -> None:
    from icecore.bench.train import bench_train
    from icecore.training import device_name

    where, chosen, cases = what_to_time(task, model, width, device, precision)
    made = bench_train(cases, where, chosen, seconds)
    _, rows = kept_rows(made, len(cases), "timing steps", device_name(where), out, json)
    if json:
        return
    title = f"ms for one training step of one seed, {chosen}, on {device_name(where)}"
    print_table(bench_table(rows, title))


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
    _, rows = kept_rows(made, len(cases), "timing steps of language modeling", device_name(where), out, json)
    if json:
        return
    title = f"One training step of language modeling, {chosen}, on {device_name(where)}"
    print_table(bench_table(rows, title))


def bench_precision(task: str, steps: int, device: str, precision: str, out: Path | None, json: bool) -> None:
    from icecore.bench.precision import bench_precision, pairs
    from icecore.training import device_name, pick_device, pick_precision

    where = pick_device(device)
    chosen = pick_precision(precision, where)
    require(chosen != "fp32", "--what precision compares fp32 with another precision, which needs a GPU")
    made = bench_precision(task, steps, device, chosen)
    _, rows = kept_rows(made, len(pairs()), "training twice", device_name(where), out, json)
    if json:
        return
    title = f"Test accuracy in % of the same seeds in two precisions, on {device_name(where)}"
    print_table(bench_table(rows, title))


def bench_profile(
    task: str | None, model: str | None, width: int | None, device: str, precision: str, out: Path | None, json: bool
) -> None:
    from icecore.bench.profile import profile_case
    from icecore.training import device_name

    where, chosen, cases = what_to_time(task, model, width, device, precision)
    made = (found for case in cases for found in profile_case(case, where, chosen))
    profiles, _ = kept_rows(made, 2 * len(cases), "profiling steps", device_name(where), out, json)
    if json:
        return
    for plain, ours in zip(profiles[::2], profiles[1::2], strict=True):
        kinds = list(dict.fromkeys([*ours.by_kind, *plain.by_kind]))
        title = (
            f"us of one step by kind of kernel: {ours.task}, {ours.model} {ours.width}, {ours.trainable} trained, "
            f"seeds: {ours.seeds}, on {device_name(where)}"
        )
        rows = [
            *((kind, f"{plain.by_kind.get(kind, 0):,.0f}", f"{ours.by_kind.get(kind, 0):,.0f}") for kind in kinds),
            ("all kernels", *(f"{sum(way.by_kind.values()):,.0f}" for way in (plain, ours))),
            ("wall", *(f"{way.wall_us:,.0f}" for way in (plain, ours))),
        ]
        headings = ("", f"reference, {plain.precision}", f"ours, {ours.precision}")
        print_table(Table(title, headings, rows, left=("",)))
