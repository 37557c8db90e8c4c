"""`icecore evaluate`: measure a saved run again, and show its errors."""

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import typer

from icecore.cli.output import JSON_OPTION, counted, counting, print_table, say
from icecore.cli.run_folders import RUN, TRUST, require_elsewhere
from icecore.cli.run_report import report
from icecore.cli.settings import task_settings
from icecore.errors import require
from icecore.reporting.table import Table

if TYPE_CHECKING:
    from torch import Tensor

    from icecore.analysis.errors import AccuracyByPosition, ErrorsByLength
    from icecore.tasks import Batch, Task
    from icecore.training import RunConfig

Words = Callable[[Sequence[int]], str]  # tokens in the task's notation


def command(
    context: typer.Context,
    run: Path = RUN,
    by_length: bool = typer.Option(False, "--by-length", help="Show the wrong items by length."),
    by_position: bool = typer.Option(
        False, "--by-position", help="Show the accuracy of an answer's first scored token, its second, and so on."
    ),
    errors: Path | None = typer.Option(None, metavar="FILE", help="Write the wrong items and answers as JSON lines."),
    device: str = typer.Option("auto", help="auto, cpu or cuda."),
    trust: bool = TRUST,
    json: bool = JSON_OPTION,
) -> None:
    """Measure a run's test accuracy again, and list its errors.

    [bold]Examples[/bold]

    icecore evaluate runs/needle/0123456789ab --by-length --errors wrong.jsonl
    icecore evaluate RUN --max-pairs 40

    An item is wrong if any of its scored tokens is wrong. In decimal addition, preset released, the padding after a
    shorter sum is scored too.

    The task's settings are flags: evaluate on longer items, or on more of them (--test-size). The run must have a
    position for every token (icecore train --positions).
    """
    from icecore.analysis.errors import accuracy_by_position, errors_by_length, wrong_items
    from icecore.process import configure_process
    from icecore.store import write_whole
    from icecore.training import RunFolder, TrainedRun, pick_device
    from icecore.training.evaluation import measured
    from icecore.training.population import predict

    configure_process()
    require_elsewhere(run, errors)
    folder = RunFolder(run, trust)
    config, population = folder.load(pick_device(device))
    stored = folder.result()  # refused before anything is written
    settings = task_settings(context, type(config.task))
    task = other_task(config, settings) if settings else config.task
    test = task.test_set().to(pick_device(device))
    with contextlib.ExitStack() as stack:
        stream = None if errors is None else stack.enter_context(write_whole(errors))  # fails now, not after the work
        on_rows = stack.enter_context(counting(len(test), "evaluating"))
        predictions, loss = predict(population, test, on_rows=on_rows)
        wrong = wrong_items(predictions, test)
        if stream is not None:
            write_errors(stream, config.seeds, task, test, wrong, predictions)
    result = stored | measured(task, test, predictions, loss)
    if settings:
        result |= {"settings": settings, "baselines": task.baselines()}
        result.pop("train_accuracy", None)
    lengths = errors_by_length(task.items(test), wrong) if by_length else []
    if by_length:
        result["by_length"] = [dataclasses.asdict(each) for each in lengths]
    positions = accuracy_by_position(predictions, test) if by_position else []
    if by_position:
        result["by_position"] = [dataclasses.asdict(each) for each in positions]
    if settings and not json:
        say(f"on {', '.join(f'{name} {value}' for name, value in settings.items())}")
    report(TrainedRun(config, result, population, [], run), json)
    if json:
        return
    if by_length:
        print_lengths(config.seeds, lengths, words_of(task))
    if by_position:
        print_positions(config.seeds, positions)
    if errors is not None:
        say(f"{counted(int(wrong.sum()), 'error')} in {errors}")


def other_task(config: "RunConfig", settings: dict[str, str]) -> "Task":
    """Return the run's task with other settings, if the model can read its items."""
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


def words_of(task: "Task") -> Words:
    return lambda tokens: " ".join(task.words(list(tokens)))


def write_errors(
    stream: IO[str], seeds: Sequence[int], task: "Task", test: "Batch", wrong: "Tensor", predictions: "Tensor"
) -> None:
    """Write a line per wrong item and seed: as tokens, and in words if the task has a notation."""
    import json

    from icecore.tasks import Task

    items, words, has_words = task.items(test), words_of(task), type(task).words is not Task.words
    for seed, row in wrong.nonzero().tolist():
        scored = test.scored[row]
        both = {"wanted": test.targets[row][scored].tolist(), "said": predictions[seed, row][scored].tolist()}
        line = {"seed": seeds[seed], **items[row]._asdict(), **both}
        if has_words:
            line["words"] = {name: words(line[name]) for name in ("prompt", "wanted", "said")}
        stream.write(json.dumps(line) + "\n")


def print_lengths(seeds: Sequence[int], lengths: "Sequence[ErrorsByLength]", words: Words) -> None:
    shown = [each for each in lengths if any(each.wrong)]
    without = len(lengths) - len(shown)
    title = "Wrong items by the length of their prompts, in tokens"
    title += f"; {counted(without, 'length')} without errors" if without else ""
    answers = "correct answers"
    headings = ("tokens", "items", *(f"wrong, seed {seed}" for seed in seeds), answers)
    rows = [
        (str(each.length), f"{each.items:,}", *(f"{count:,}" for count in each.wrong), some_of(each.answers, words))
        for each in shown
    ]
    say()
    print_table(Table(title, headings, rows, left=(answers,), wraps=(answers,)))


def print_positions(seeds: Sequence[int], positions: "Sequence[AccuracyByPosition]") -> None:
    title = "Accuracy by the position of a token among the scored tokens of its item"
    rows = [(str(each.position), f"{each.items:,}", *(f"{value:.4f}" for value in each.accuracy)) for each in positions]
    say()
    print_table(Table(title, ("position", "items", *(f"seed {seed}" for seed in seeds)), rows))


def some_of(answers: Sequence[Sequence[int]], words: Words, most: int = 4) -> str:
    texts = [words(answer) for answer in answers[:most]]
    return ", ".join(texts) + (f" and {len(answers) - most:,} more" if len(answers) > most else "")
