"""`icecore data`: a task's items as JSON lines."""

import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from icecore.cli.output import say, with_progress
from icecore.cli.settings import checked_task, task_settings
from icecore.errors import InputError, require

if TYPE_CHECKING:
    from icecore.tasks import Item, Task

BLOCK = 8192  # items sampled at a time


class Split(StrEnum):
    train = "train"
    test = "test"


def command(
    context: typer.Context,
    task: str = typer.Argument(..., help="A task's name (see: icecore tasks) or FILE.py:CLASS."),
    preset: str = typer.Option(
        "released", help="Whose settings: released, unfiltered, reconstructed, paper; see icecore tasks TASK."
    ),
    split: Split = typer.Option(Split.test, help="Test items or training items."),
    count: int | None = typer.Option(
        None,
        max=10**12,
        help="Write only the first COUNT items. Default: all; 1,000 if training items are sampled without end.",
    ),
    seed: int = typer.Option(0, help="Seed of sampled training items."),
    out: Path | None = typer.Option(None, help="Write to this file. Default: standard output."),
) -> None:
    """Write a task's items as JSON lines.

    [bold]Examples[/bold]

    icecore data needle --out needle.jsonl
    icecore data needle --max-pairs 4 --count 10
    icecore data needle --split train --count 100000 --out train.jsonl

    A line is {"prompt": [...], "answer": [...]}, token ids without padding. With the preset released, the test items
    are exactly the authors', in their order. Every setting of the task is a flag; icecore tasks TASK lists them.
    """
    from icecore.process import configure_process
    from icecore.store import write_whole
    from icecore.training.imitation_target import with_target

    configure_process()
    require(count is None or count >= 1, f"--count must be at least 1, got {count}")
    made = with_target(checked_task(task, preset, task_settings(context, task)))
    total, items = items_of(made, split, count, seed)
    lines = (json.dumps(item._asdict()) + "\n" for item in items)
    if out is None:
        sys.stdout.writelines(lines)
        return
    with write_whole(out) as stream:
        stream.writelines(with_progress(lines, total, f"{made.name} {split}"))
    say(f"{total:,} {split} items of {made.name}, preset {preset}, to {out}")


def items_of(task: "Task", split: Split, count: int | None, seed: int) -> "tuple[int, Iterable[Item]]":
    """Return the number of items, and the items."""
    if split is Split.test:
        if task.test_split == "none":
            raise InputError(f"{task.name} has no test split: its training items are scored; use --split train")
        items = task.items(task.test_set())
    else:
        train = task.train_set()
        if train is None:
            total = count or 1000
            return total, itertools.islice(stream_of(task, seed), total)
        items = task.items(train)
    return len(items[:count]), items[:count]


def stream_of(task: "Task", seed: int) -> "Iterator[Item]":
    from icecore.seeding import make_generator

    generator = make_generator(seed, "train")
    while True:
        yield from task.items(task.sample(BLOCK, generator))
