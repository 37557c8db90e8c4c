"""`icecore compare`: trainable sets, widths and models on one task."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from icecore.cli.bodies import find_body, kind_of, make_body
from icecore.cli.figures import files_at
from icecore.cli.options import (
    ADDRESS,
    BATCH,
    CLIP,
    DEVICE,
    EXECUTOR,
    FORCE,
    GAIN,
    GPUS,
    HEADS,
    INIT,
    LAYERS,
    LOG,
    MODEL_PANEL,
    OUTPUT_PANEL,
    POSITION_INIT,
    PRECISION,
    RUN_PANEL,
    SCHEDULE,
    STEPS,
    TASK,
    TASK_PRESET,
    TRAINING_PANEL,
    WARMUP_STEPS,
    WEIGHT_DECAY,
    Executor,
)
from icecore.cli.output import (
    CSV,
    JSON_OPTION,
    MARKDOWN,
    Format,
    counted,
    format_of,
    print_json,
    print_table,
    say,
    say_aside,
    say_wrapped,
)
from icecore.cli.reproduce import list_missing
from icecore.cli.settings import checked_task, settings_given
from icecore.cli.sweeps import jobs_logged, jobs_progress, parse_rates, warn, warn_of_width
from icecore.cli.train import explicit_options, parse_seeds
from icecore.errors import InputError, require

if TYPE_CHECKING:
    from icecore.models import Model
    from icecore.sweeps.cells import Cell
    from icecore.sweeps.rates import ChosenRate
    from icecore.tasks import Task


WORDS = "Random: embeddings train, the body is frozen; Normal: everything trains; U only: the unembedding alone."


def command(
    context: typer.Context,
    task: str = TASK,
    preset: str = TASK_PRESET,
    model: list[str] = typer.Option(
        ["transformer"],
        help="transformer, linearized, lstm, gru, llama, mamba, linear-attention, deltanet, FILE.py:CLASS. Repeatable.",
        rich_help_panel=MODEL_PANEL,
    ),
    widths: str | None = typer.Option(
        None, help="Widths, such as 16,64,256. Default: the paper's, mostly 1024.", rich_help_panel=MODEL_PANEL
    ),
    layers: int | None = LAYERS,
    heads: int | None = HEADS,
    init: str | None = INIT,
    gain: float | None = GAIN,
    position_init: str | None = POSITION_INIT,
    trainable: list[str] = typer.Option(
        ["unembed", "embeddings", "all"],
        help="What trains (see: icecore train --help). Repeatable.",
        rich_help_panel=TRAINING_PANEL,
    ),
    steps: int | None = STEPS,
    batch: int | None = BATCH,
    lr: str | None = typer.Option(
        None,
        help="Peak learning rate. Several, 1e-3,5e-3: each cell takes its best on validation items. Default: the "
        "preset's.",
        rich_help_panel=TRAINING_PANEL,
    ),
    weight_decay: float | None = WEIGHT_DECAY,
    warmup_steps: int | None = WARMUP_STEPS,
    schedule: str | None = SCHEDULE,
    clip: float | None = CLIP,
    seeds: str = typer.Option("3", help="Seeds per cell: how many (10), or which (0,3,7).", rich_help_panel=RUN_PANEL),
    device: str = DEVICE,
    force: bool = FORCE,
    precision: str = PRECISION,
    executor: Executor = EXECUTOR,
    address: str | None = ADDRESS,
    gpus: float = GPUS,
    out: Path = typer.Option(
        Path("runs"),
        help="Where runs and records are saved; recorded runs are not repeated.",
        rich_help_panel=RUN_PANEL,
    ),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="List the missing runs, and train nothing.", rich_help_panel=RUN_PANEL
    ),
    metric: str = typer.Option("accuracy", help="Metric to show, e.g. exact_match.", rich_help_panel=OUTPUT_PANEL),
    figure: Path | None = typer.Option(
        None,
        help="Draw accuracy against width: FILE.png, FILE.pdf, or a folder, which gets both.",
        rich_help_panel=OUTPUT_PANEL,
    ),
    log: list[str] = LOG,
    json: bool = JSON_OPTION,
    markdown: bool = MARKDOWN,
    csv: bool = CSV,
) -> None:
    """Compare trainable sets, widths and models on one task.

    [bold]Examples[/bold]

    icecore compare needle --widths 16,64,256 --init matched --figure widths.png
    icecore compare my_task.py:MyTask --widths 16,64 --steps 1000 --batch 128
    icecore compare needle --model lstm --model my_body.py:MyBody --widths 64

    In the table, "Random" is --trainable embeddings, "Normal" is all, "U only" is unembed. Settings of the task and of
    the bodies are flags. Recorded runs are not repeated; a killed comparison continues with the same command.
    """
    from icecore.drawing import require_drawable, write
    from icecore.reporting.comparison import points_of, require_metric
    from icecore.reporting.figures.widths import draw_widths
    from icecore.store import Records
    from icecore.sweeps.cluster_choices import choose_rates_on_ray, train_missing_on_ray
    from icecore.sweeps.comparison import comparison, missing_of, train_missing
    from icecore.sweeps.rates import choose_rates
    from icecore.sweeps.runner import Job
    from icecore.tasks import Task
    from icecore.training import device_name, pick_device, require_sound
    from icecore.training.trackers import require_trackers

    require_trackers(log)
    require(not log or executor is Executor.local, "--log follows runs of this machine: drop it, or --executor ray")
    rates = parse_rates(lr)
    classes = {name: find_body(name) for name in model}
    of_task, of_model = settings_given(context, task, *classes.values())
    made = checked_task(task, preset, of_task)
    require(
        type(made).loss_baselines is Task.loss_baselines,
        f"{made.name} is judged by its loss, and this compares accuracies: icecore reproduce --list has its figure",
    )
    require(
        len(classes) == 1 or widths is not None, "with several models give --widths, so that all have the same widths"
    )
    of_any = {"layers": layers, "heads": heads, "init": init, "gain": gain, "position_init": position_init}
    bodies = bodies_at(made, preset, classes, parse_widths(widths), of_any | of_model)
    training = explicit_options(
        steps=steps,
        batch=batch,
        lr=rates[0] if len(rates) == 1 else None,
        weight_decay=weight_decay,
        warmup_steps=warmup_steps,
        schedule=schedule,
        clip=clip,
    )
    chosen = parse_seeds(seeds)
    require_metric(metric, [made])
    cells = comparison(made, bodies, list(dict.fromkeys(trainable)), preset, training)
    for cell in cells:
        require_sound(cell.of_one_seed)  # report an error of any cell before the first one trains
    files = [] if figure is None else files_at(figure, made.name)
    require_drawable(files)
    choices = []
    if len(rates) > 1:
        require(not dry_run, "--dry-run cannot know the chosen rates: give one --lr")
        with jobs_progress([Job(cell, chosen) for cell in cells for _ in rates]) as (progress_of, _):
            if executor is Executor.ray:
                choose_rates_on_ray(cells, rates, chosen, out, device, precision, address, gpus)
            choices = choose_rates(cells, rates, chosen, out, device, precision, progress_of)
        cells = [choice.cell for choice in choices]
    populations = [
        one for each in missing_of(cells, chosen, Records(out, warn), device, precision).values() for one in each
    ]
    if dry_run:
        list_missing(populations, out, device_name(pick_device(device)), json)
        return
    if populations and (advice := cells[0].of_one_seed.training.advice) is not None:
        warn(advice)
    widest = max((one.cell.model.width for one in populations), default=0)
    warn_of_width(widest, device, "try --widths 16,64 --init matched")
    with (
        jobs_progress(populations) as (progress_of, on_done),
        jobs_logged(log, out, device, precision, progress_of) as progress_of,
    ):
        if executor is Executor.ray:
            failures = train_missing_on_ray(cells, chosen, out, device, precision, on_done, force, address, gpus)
        else:
            failures = train_missing(cells, chosen, out, device, precision, progress_of, on_done, force)
    points = points_of(cells, chosen, Records(out), device, precision, metric)
    left = sum(map(len, missing_of(cells, chosen, Records(out), device, precision).values())) - len(failures)
    if json:
        shown = [{"cell": each.cell.label, "lr": each.lr, "validation": each.accuracies} for each in choices]
        print_json(
            {
                "points": [dataclasses.asdict(point) for point in points],
                "files": [str(file) for file in files],
                **({"rates": shown} if shown else {}),
            }
        )
    else:
        show(made, cells, points, chosen, metric, format_of(markdown, csv))
        if choices and not csv:
            show_rates(made, choices)
    if left > 0:
        warn(f"another process is training {counted(left, 'population')}; run this again when it is done")
    for failure in failures:
        say_aside(f"failed: {failure.label}: {failure.reason}")
    if files and points:
        write(draw_widths(points, f"Test {spaced(metric)}: medians, and a dash for each seed"), files)
        say_aside("".join(f"drawn in {file}\n" for file in files), end="")
    if failures:
        raise InputError(
            f"{len(failures)} of {counted(len(populations), 'population')} failed; see above, fix it and run again"
        )


def show(
    task: "Task", cells: "Sequence[Cell]", points: Sequence[Any], seeds: tuple[int, ...], metric: str, format: Format
) -> None:
    from icecore.reporting.comparison import table_of
    from icecore.tasks.lazy import strongest_lazy_rule

    title = f"{task.name}: test {spaced(metric)} in %, median of {counted(len(seeds), 'seed')} (min to max)"
    print_table(table_of(cells, points, seeds, title), format)
    if format is Format.csv:
        return
    rule = strongest_lazy_rule(task)
    known = task.baselines() | ({} if rule is None else {rule.name: rule.accuracy})
    baselines = ", ".join(f"{spaced(name)} {100 * value:.1f}" for name, value in known.items())
    whose = "" if metric == "accuracy" else " of the accuracy"
    say()
    say_wrapped(f"baselines{whose}, which need no learning: {baselines or 'none'}")
    others = [name for name in task.metrics() if name != metric]
    if others:
        say_wrapped(f"other metrics: {', '.join(f'--metric {name}' for name in others)}")
    steps = sorted({cell.of_one_seed.training.steps for cell in cells})
    say_wrapped(f"{' to '.join(f'{count:,}' for count in steps)} steps each. {WORDS}")


def show_rates(task: "Task", choices: "Sequence[ChosenRate]") -> None:
    items = "all items, of which none is held out" if task.test_split == "none" else "validation items"
    say(f"\nlearning rates, chosen on {items} (median accuracy in %):")
    for choice in choices:
        each = ", ".join(f"{rate:g}: {100 * accuracy:.1f}" for rate, accuracy in choice.accuracies.items())
        say_wrapped(f"  {choice.cell.name.column}: {choice.lr:g} ({each})")


def spaced(name: str) -> str:
    return name.replace("_", " ")


def parse_widths(text: str | None) -> list[int | None]:
    if text is None:
        return [None]
    try:
        widths = sorted({int(part) for part in text.split(",") if part.strip()})
    except ValueError:
        raise InputError(f"--widths must be whole numbers with commas, such as 16,64,256, got '{text}'") from None
    require(bool(widths) and widths[0] >= 1, f"--widths must be at least 1, got '{text}'")
    return [*widths]


def bodies_at(
    task: "Task", preset: str, classes: "dict[str, type[Model]]", widths: Sequence[int | None], given: dict[str, Any]
) -> "dict[str, list[Model]]":
    """Make each body at every width. Each takes the given settings that it has; every setting must belong to one."""
    from icecore.models import settings_of_model

    fields = {name: settings_of_model(each) for name, each in classes.items()}
    for key, value in given.items():
        known = any(key in each for each in fields.values())
        require(value is None or known, f"no model of {', '.join(classes)} has {key}; drop --{key.replace('_', '-')}")
    made = [
        [
            make_body(
                task,
                preset,
                name,
                each,
                {"width": width} | {key: value for key, value in given.items() if key in fields[name]},
            )
            for width in widths
        ]
        for name, each in classes.items()
    ]
    bodies = {kind_of(each[0]): each for each in made}
    require(
        len(bodies) == len(classes), f"two models have the same name: {', '.join(kind_of(each[0]) for each in made)}"
    )
    return bodies
