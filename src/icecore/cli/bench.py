"""`icecore bench`: speed, each figure beside what it is compared with."""

import dataclasses
from enum import StrEnum

import typer

from icecore.cli.output import JSON_OPTION, print_json, print_table, with_progress


class What(StrEnum):
    data = "data"


def command(
    what: What = typer.Option(What.data, help="What to time: data is the sampling of training items."),
    json: bool = JSON_OPTION,
) -> None:
    """Time icecore against its plain twins, in one run on this machine."""
    from icecore.bench.data import bench_data, streaming_tasks
    from icecore.process import prepare

    prepare()
    rows = list(with_progress(bench_data(), len(streaming_tasks()), f"timing {what}"))
    if json:
        print_json({"rows": [dataclasses.asdict(row) | {"ratio": row.ratio} for row in rows]})
        return
    print_table(
        "Training items sampled per second on the CPU",
        {"task": "left", "tensors": "right", "plain Python": "right", "ratio": "right"},
        ((row.task, f"{row.items_per_s:,.0f}", f"{row.python_items_per_s:,.0f}", f"{row.ratio:.1f}") for row in rows),
    )
