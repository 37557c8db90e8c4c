"""The command line: it parses, prints and exits; everything else is the library's.

Modules that import torch are imported inside the commands, so that `icecore --help` is instant.
"""

import contextlib
import errno
import inspect
import os
import sys
from collections.abc import Sequence

import typer

import icecore
from icecore.cli import (
    analyze,
    bench,
    claims,
    compare,
    data,
    demo,
    evaluate,
    export,
    extract,
    figures,
    prepare,
    reproduce,
    sample,
    show,
    targets,
    tasks,
    train,
)
from icecore.cli.settings import TAKES_TASK_SETTINGS
from icecore.cli.sweeps import SAID
from icecore.errors import InputError, Interrupted, is_out_of_memory

USAGE_ERROR = typer.BadParameter.__base__  # typer has its click inside since 0.26 and beside it before

app = typer.Typer(
    name="icecore",
    help="What can a random transformer already do? Freeze a random body, train only the embeddings.\n\n"
    "Start with [bold]icecore demo[/bold], then [bold]icecore train needle --width 64 --init matched[/bold], then "
    "[bold]icecore compare --help[/bold] for a task of your own.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
TRAIN, INSIDE, EXTEND, REPRODUCE = "Train", "Look inside", "Extend", "Reproduce the paper"
COMMANDS = {
    TRAIN: {"demo": demo.command, "train": train.command, "compare": compare.command},
    INSIDE: {
        "show": show.command,
        "evaluate": evaluate.command,
        "analyze": analyze.analyze_command,
        "sample": sample.command,
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


def reflowed(docstring: str) -> str:
    """Join the lines of each paragraph, so that a terminal of any width wraps them; examples keep their lines."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n\n".join(text if text.startswith("icecore ") else " ".join(text.split("\n")) for text in paragraphs)


WITH_TASK_SETTINGS = ("train", "compare", "evaluate", "tasks", "data")  # every setting of the task is a flag
for panel, commands in COMMANDS.items():
    for name, function in commands.items():
        settings = TAKES_TASK_SETTINGS if name in WITH_TASK_SETTINGS else None
        help_text = reflowed(function.__doc__ or "")
        app.command(name, help=help_text, context_settings=settings, rich_help_panel=panel)(function)
results = typer.Typer(help="Merge results of several machines.", no_args_is_help=True)
results.command("merge")(claims.merge_command)
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
    """Run one command; the exit code is 0, 2 with one line that says what to do, or 130 when interrupted."""
    SAID.clear()
    try:
        code = app(args=None if arguments is None else list(arguments), standalone_mode=False)
        sys.stdout.flush()
        if code == 130:  # newer typers turn an interrupt into this code themselves
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except InputError as error:
        return fail(str(error))
    except Interrupted as error:
        print(error, file=sys.stderr)
        return 130
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted", file=sys.stderr)
        return 130
    except (BrokenPipeError, SystemExit) as error:
        if isinstance(error, SystemExit) and not isinstance(error.__context__, OSError):
            return fail(f"your file called sys.exit({error.code}); remove the call")
        drop_output()  # the reader, `head` say, has seen enough; click exits then by itself
        return 0
    except OSError as error:
        drop_output()
        return fail(in_words(error))
    except Exception as error:
        if USAGE_ERROR is not None and isinstance(error, USAGE_ERROR):
            return fail(error.format_message() or "name what to do; see --help")  # type: ignore[attr-defined]
        if is_out_of_memory(error):
            return fail("out of memory; take a smaller size")
        raise


def drop_output() -> None:
    """What standard output could not take is not tried again when the process ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def in_words(error: OSError) -> str:
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOENT, errno.ESTALE) and error.filename is not None:
        return f"{error.filename} is gone ({reason}); was it moved or deleted meanwhile? run the command again"
    return f"cannot write the output: {reason}; free the disk, or write elsewhere"


def fail(message: str) -> int:
    print("error:", " ".join(message.split()), file=sys.stderr)
    return 2
