"""The command line. It parses, prints and exits; the library does everything else.

Modules that import torch are imported inside the commands, so that `icecore --help` is instant.
"""

import contextlib
import errno
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import typer

import icecore
from icecore.cli import (
    analyze,
    bench,
    claims,
    compare,
    construct,
    curves,
    data,
    demo,
    evaluate,
    export,
    extract,
    figures,
    playground,
    prepare,
    report,
    reproduce,
    sample,
    show,
    targets,
    tasks,
    threshold,
    track,
    train,
)
from icecore.cli.help import PlainCommand, PlainGroup, reflowed
from icecore.cli.output import say_aside
from icecore.cli.settings import TAKES_TASK_SETTINGS
from icecore.cli.sweeps import SAID, warn
from icecore.errors import Advice, InputError, Interrupted, is_out_of_memory, printable_line
from icecore.signals import ending_line, interrupts_raised

USAGE_ERROR = typer.BadParameter.__base__  # typer bundles click since 0.26 and imported it before

app = typer.Typer(
    name="icecore",
    cls=PlainGroup,
    help="What can a random transformer already do? Freeze a random body, train only the embeddings.\n\n"
    "Start with [bold]icecore demo[/bold]. Then:\n\n"
    "icecore train needle --width 64 --init matched --steps 1000 --batch 128\n"
    "icecore compare my_task.py:MyTask --widths 16,64\n"
    "icecore reproduce --list\n\n"
    "Flags and examples of a command: [bold]icecore COMMAND --help[/bold].",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
TRAIN, INSIDE, EXTEND, REPRODUCE = "Train", "Look inside", "Extend", "Reproduce the paper"
COMMANDS = {
    TRAIN: {
        "demo": demo.command,
        "train": train.command,
        "compare": compare.command,
        "threshold": threshold.command,
    },
    INSIDE: {
        "show": show.command,
        "curves": curves.command,
        "evaluate": evaluate.command,
        "analyze": analyze.analyze_command,
        "track": track.command,
        "report": report.command,
        "playground": playground.command,
        "sample": sample.command,
        "construct": construct.command,
    },
    EXTEND: {
        "tasks": tasks.command,
        "data": data.command,
        "prepare": prepare.command,
        "extract": extract.command,
        "export": export.command,
    },
    REPRODUCE: {
        "reproduce": reproduce.reproduce_command,
        "claims": claims.claims_command,
        "figure": figures.figure_command,
        "targets": targets.command,
        "bench": bench.command,
    },
}


WITH_TASK_SETTINGS = (
    "train",
    "compare",
    "threshold",
    "evaluate",
    "tasks",
    "data",
    "construct",
)  # each setting is a flag
for panel, commands in COMMANDS.items():
    for name, function in commands.items():
        settings = TAKES_TASK_SETTINGS if name in WITH_TASK_SETTINGS else None
        help_text = reflowed(function.__doc__ or "")
        app.command(name, cls=PlainCommand, help=help_text, context_settings=settings, rich_help_panel=panel)(function)
results = typer.Typer(cls=PlainGroup, help="Merge results of several machines.", no_args_is_help=True)
results.command("merge", cls=PlainCommand, help=reflowed(claims.merge_command.__doc__ or ""))(claims.merge_command)
results.callback()(lambda: None)
app.add_typer(results, name="results", rich_help_panel=REPRODUCE)


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        print(icecore.__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 2 after a one-line error, 128 + its number after a signal."""
    SAID.clear()
    with interrupts_raised() as interrupts, advice_printed():
        try:
            return run(arguments)
        except (KeyboardInterrupt, typer.Abort):
            line, code = ending_line(interrupts.number)
            say_aside(line)
            return code


@contextlib.contextmanager
def advice_printed() -> Iterator[None]:
    """Print the library's advice as one line, once; leave other warnings as they are."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def print_advice(message: Warning | str, category: type[Warning], *details: Any) -> None:
            warn(str(message)) if issubclass(category, Advice) else show(message, category, *details)

        warnings.simplefilter("always", Advice)
        warnings.showwarning = print_advice
        yield


def run(arguments: Sequence[str] | None) -> int:
    """Run one command and return its exit code; a signal outside of training raises."""
    try:
        code = app(args=None if arguments is None else list(arguments), standalone_mode=False)
        sys.stdout.flush()
        if code == 130:  # newer typer versions turn an interrupt into this code
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except InputError as error:
        return fail(str(error))
    except Interrupted as error:
        say_aside(error)
        return error.exit_code
    except (BrokenPipeError, SystemExit) as error:
        if isinstance(error, SystemExit) and not isinstance(error.__context__, OSError):
            return fail(f"your file called sys.exit({error.code}); remove the call")
        drop_output()  # the reader, such as `head`, closed the pipe; click then exits by itself
        return 0
    except OSError as error:
        drop_output()
        return fail(words_of_os_error(error))
    except Exception as error:
        if USAGE_ERROR is not None and isinstance(error, USAGE_ERROR):
            return fail(error.format_message() or "name a command; see --help")  # type: ignore[attr-defined]
        if is_out_of_memory(error):
            return fail("out of memory; use a smaller size")
        raise


def drop_output() -> None:
    """Send standard output to /dev/null, so that Python does not flush it again at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def words_of_os_error(error: OSError) -> str:
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOENT, errno.ESTALE) and error.filename is not None:
        return f"{error.filename} is gone ({reason}); was it moved or deleted meanwhile? run the command again"
    return f"cannot write the output: {reason}; free disk space, or write elsewhere"


def fail(message: str) -> int:
    say_aside("error:", printable_line(" ".join(message.split())))
    return 2
