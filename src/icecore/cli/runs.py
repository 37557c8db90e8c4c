"""`icecore evaluate`, `show`, `keep` and `export`: what can be done with a run."""

import contextlib
import dataclasses
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING

import typer

from icecore.cli.output import JSON_OPTION, counted, counting, print_json, print_table
from icecore.cli.settings import task_settings
from icecore.cli.sweeps import warn
from icecore.cli.train import parse_seeds, report
from icecore.errors import InputError, require
from icecore.reporting.table import Table

if TYPE_CHECKING:
    from torch import Tensor

    from icecore.analysis.errors import AccuracyByPosition, ErrorsByLength
    from icecore.tasks import Batch, Item, Task
    from icecore.training import RunConfig

RUN = typer.Argument(..., metavar="RUN", help="A run's folder, such as runs/needle/0123456789ab.")


class Format(StrEnum):
    huggingface = "huggingface"


def evaluate_command(
    context: typer.Context,
    run: Path = RUN,
    by_length: bool = typer.Option(False, "--by-length", help="Show how long the items are that it gets wrong."),
    by_place: bool = typer.Option(
        False, "--by-place", help="Show the accuracy at the first scored token of an answer, at the second, and so on."
    ),
    errors: Path | None = typer.Option(
        None, metavar="FILE", help="Write the items that it gets wrong, and what it says, as JSON lines."
    ),
    device: str = typer.Option("auto", help="auto, cpu or cuda."),
    json: bool = JSON_OPTION,
) -> None:
    """Load a run, make its frozen body again, check it, and measure test accuracy anew.

    An item is wrong if any token of it that is scored is wrong; of decimal addition, preset released, that is the
    padding after a shorter sum as well.

    Settings of the task are flags: a run can be measured on longer items, or on more of them (--test-size), as far
    as it has positions for them (icecore train --positions).
    """
    from icecore.analysis.errors import accuracy_by_position, errors_by_length, wrong_items
    from icecore.process import configure_process
    from icecore.store import write_whole
    from icecore.training import RunFolder, TrainedRun, pick_device
    from icecore.training.loop import measured
    from icecore.training.population import predict

    configure_process()
    require_elsewhere(run, errors)
    folder = RunFolder(run)
    config, population = folder.load(pick_device(device))
    settings = task_settings(context, type(config.task))
    task = other_task(config, settings) if settings else config.task
    test = task.test_set().to(pick_device(device))
    with contextlib.ExitStack() as stack:
        stream = None if errors is None else stack.enter_context(write_whole(errors))  # fails now, not after the work
        on_rows = stack.enter_context(counting(len(test), "evaluating"))
        predictions, loss = predict(population, test, on_rows=on_rows)
        wrong = wrong_items(predictions, test)
        items = task.items(test) if by_length or errors is not None else []
        if stream is not None:
            write_errors(stream, config.seeds, items, wrong, predictions, test)
    result = folder.result() | measured(task, test, predictions, loss)
    if settings:
        result |= {"settings": settings, "baselines": task.baselines()}
        result.pop("train_accuracy", None)
    lengths = errors_by_length(items, wrong) if by_length else []
    if by_length:
        result["by_length"] = [dataclasses.asdict(each) for each in lengths]
    places = accuracy_by_position(predictions, test) if by_place else []
    if by_place:
        result["by_place"] = [dataclasses.asdict(each) for each in places]
    if settings and not json:
        print(f"on {', '.join(f'{name} {value}' for name, value in settings.items())}")
    report(TrainedRun(config, result, population, [], run), json)
    if by_length and not json:
        print_lengths(config.seeds, lengths)
    if by_place and not json:
        print_places(config.seeds, places)
    if errors is not None and not json:
        print(f"{int(wrong.sum()):,} errors in {errors}")


def require_elsewhere(run: Path, *files: Path | None) -> None:
    """Nothing is written into the folder of a run but by training."""
    for file in files:
        is_within = file is not None and run.resolve() in (file.resolve(), *file.resolve().parents)
        require(not is_within, f"{run} holds the run alone: write elsewhere than to {file}")


def other_task(config: "RunConfig", settings: dict[str, str]) -> "Task":
    """The run's task with other settings, if the model can read its items."""
    from icecore.tasks.loading import with_settings
    from icecore.training.imitation_target import with_target

    task = with_target(with_settings(config.task, settings))
    require(
        task.vocab_size == config.dims.vocab_size,
        f"the run knows {config.dims.vocab_size} tokens, and with these settings {task.name} has {task.vocab_size}",
    )
    require(
        task.max_length <= config.dims.n_positions,
        f"the run has {config.dims.n_positions} positions, and with these settings items have up to {task.max_length} "
        f"tokens: train one with --positions {task.max_length}",
    )
    return task


def write_errors(
    stream: IO[str],
    seeds: "Sequence[int]",
    items: "Sequence[Item]",
    wrong: "Tensor",
    predictions: "Tensor",
    test: "Batch",
) -> None:
    """One line for every wrong item of every seed, as `icecore data` writes items, and what of it is scored."""
    import json

    for seed, place in wrong.nonzero().tolist():
        scored = test.scored[place]
        both = {
            "wanted": test.targets[place][scored].tolist(),
            "said": predictions[seed, place][scored].tolist(),
        }
        stream.write(json.dumps({"seed": seeds[seed], **items[place]._asdict(), **both}) + "\n")


def print_lengths(seeds: "Sequence[int]", lengths: "Sequence[ErrorsByLength]") -> None:
    shown = [each for each in lengths if any(each.wrong)]
    none_wrong = counted(len(lengths) - len(shown), "length")
    title = f"\nWrong items by the tokens of their prompts; of {none_wrong} no item is wrong"
    answers = "right answers of the wrong"
    headings = ("tokens", "items", *(f"wrong, seed {seed}" for seed in seeds), answers)
    rows = [
        (str(each.length), f"{each.items:,}", *(f"{count:,}" for count in each.wrong), some_of(each.answers))
        for each in shown
    ]
    print_table(Table(title, headings, rows, left=(answers,)))


def print_places(seeds: "Sequence[int]", places: "Sequence[AccuracyByPosition]") -> None:
    title = "\nAccuracy by the place of a token among those that are scored of its item"
    rows = [(str(each.place), f"{each.items:,}", *(f"{value:.4f}" for value in each.accuracy)) for each in places]
    print_table(Table(title, ("place", "items", *(f"seed {seed}" for seed in seeds)), rows))


def some_of(answers: "Sequence[Sequence[int]]", most: int = 4) -> str:
    texts = [" ".join(map(str, answer)) for answer in answers[:most]]
    return ", ".join(texts) + (f" and {len(answers) - most:,} more" if len(answers) > most else "")


def show_command(
    run: Path = typer.Argument(..., metavar="RUN", help="A run's folder, or a folder of runs, which are listed."),
    json: bool = JSON_OPTION,
) -> None:
    """Show a run's config, how far it is, and its result; or which runs a folder holds."""
    from icecore.training.run_folder import CONFIG, RunFolder, phases_of, read_config

    folder = RunFolder(run)
    below = [] if folder.is_begun else sorted(path.parent for path in run.glob(f"**/{CONFIG}"))
    if below:
        list_runs(run, below, json)
        return
    require(folder.is_begun, f"{run} is no run: it has no {CONFIG}")
    config = read_config(run)
    rows = list(folder.metrics())
    result = folder.result() if folder.is_complete else None
    if json:
        print_json({"config": config, "result": result, "last": rows[-1] if rows else None})
        return
    for part, value in config.items():
        print(f"{part}: {value}")
    if result is None:
        steps = sum(phase["optimization"].get("steps", 0) for phase in phases_of(config))
        print(f"unfinished, {rows[-1]['step'] if rows else 0} of {steps} steps logged")
    for name, value in (result or {}).items():
        print(f"{name}: {value}")
    if (result or {}).get("weights") == "float16":
        print("measured before the weights were kept in 16 bits; icecore evaluate measures what is kept")


def list_runs(folder: Path, paths: "Sequence[Path]", json: bool) -> None:
    from icecore.training.run_folder import RunFolder, phases_of, read_config

    rows = []
    for path in paths:
        try:
            config, run = read_config(path), RunFolder(path)
            result = run.result() if run.is_complete else {}
            last = max((row["step"] for row in run.metrics()), default=0)
            phases = phases_of(config)
            rows.append(
                {
                    "run": str(path.relative_to(folder)),
                    "task": config["task"]["name"],
                    "model": config["model"]["name"],
                    **{name: config["model"]["settings"].get(name) for name in ("width", "layers", "init")},
                    "trained": ", then ".join(phase["trainable"] for phase in phases),
                    "seeds": config["seeds"],
                    "step": sum(phase["optimization"]["steps"] for phase in phases) if run.is_complete else last,
                    "lr": phases[-1]["optimization"]["lr"],
                    "accuracy": result.get("accuracy"),
                }
            )
        except (InputError, KeyError, TypeError, AttributeError) as error:
            warn(f"{path} is damaged and left out: {error}")
    if json:
        print_json({"runs": rows})
        return
    headings = tuple(rows[0]) if rows else ()
    left = tuple(name for name in headings if name not in ("width", "layers", "step", "lr"))
    cells = [[in_a_cell(value) for value in row.values()] for row in rows]
    print_table(Table(f"{counted(len(rows), 'run')} in {folder}", headings, cells, left))


def in_a_cell(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(f"{each:.4f}" if isinstance(each, float) else str(each) for each in value)
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def keep_command(
    run: Path = RUN,
    seeds: str = typer.Option("3", help="How many seeds (3: the run's first three), or which (0,3,7)."),
    out: Path = typer.Option(..., help="Where to: the run is kept in a folder of its own under it."),
    half: bool = typer.Option(
        False, "--half", help="16 bits a number, about 3 digits: half the size, and an answer on the edge may change."
    ),
) -> None:
    """Copy some seeds of a finished run, as a run of its own that every command can load."""
    from icecore.training import RunFolder

    folder, chosen = RunFolder(run), parse_seeds(seeds)
    if "," not in seeds:
        there = folder.complete_config().seeds
        require(len(chosen) <= len(there), f"the run has {len(there)} seeds, not {len(chosen)}: {list(there)}")
        chosen = there[: len(chosen)]
    kept = folder.keep(chosen, out, half)
    print(f"seeds {', '.join(map(str, chosen))} of {run} in {kept.path}")


def export_command(
    run: Path = RUN,
    folder: Path = typer.Argument(..., metavar="DIR", help="Where to write the model."),
    format: Format = typer.Option(Format.huggingface, help="huggingface: a GPT2LMHeadModel."),
    seed: int | None = typer.Option(None, help="Which seed. Default: the run's first."),
) -> None:
    """Write one seed as a model that AutoModelForCausalLM.from_pretrained(DIR) loads."""
    import safetensors
    import torch

    from icecore.models.huggingface import to_huggingface_tokenizer
    from icecore.store import filled_whole
    from icecore.tasks import Language
    from icecore.text import load_tokenizer
    from icecore.text.formats import END
    from icecore.training import RunFolder, index_of

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is not empty; name a new folder")
    config, population = RunFolder(run).load(torch.device("cpu"))
    chosen = config.seeds[0] if seed is None else seed
    index = index_of(chosen, config.seeds)
    network = config.model.to_huggingface(config.dims, population.parameters(index))
    tokenizer = None
    if isinstance(config.task, Language):
        tokenizer = to_huggingface_tokenizer(load_tokenizer(config.task.text.folder), END)
        for settings in (network.config, network.generation_config):
            settings.eos_token_id = settings.bos_token_id = config.task.text.end_token
    with filled_whole(folder) as path:
        try:
            network.save_pretrained(path)
            if tokenizer is not None:
                tokenizer.save_pretrained(path)
        except safetensors.SafetensorError as error:  # which is what safetensors makes of an OSError
            raise OSError(str(error)) from error
    print(f"seed {chosen} of {run} to {folder}, as {format}")
