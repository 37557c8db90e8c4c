"""The command line: it parses, prints and exits; everything else is the library's.

Modules that import torch are imported inside the commands, so that `icecore --help` is instant.
"""

import contextlib
import errno
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
    figures,
    prepare,
    reproduce,
    runs,
    sample,
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
    help="What can a random transformer already do? Freeze a random body, train only the embeddings.",
    epilog="Start with: icecore demo · icecore tasks needle · icecore compare --help · icecore reproduce --list",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command("tasks", context_settings=TAKES_TASK_SETTINGS)(tasks.command)
app.command("targets")(targets.command)
app.command("data", context_settings=TAKES_TASK_SETTINGS)(data.command)
app.command("prepare")(prepare.command)
app.command("train", context_settings=TAKES_TASK_SETTINGS)(train.command)
app.command("compare", context_settings=TAKES_TASK_SETTINGS)(compare.command)
app.command("evaluate", context_settings=TAKES_TASK_SETTINGS)(runs.evaluate_command)
app.command("show")(runs.show_command)
app.command("sample")(sample.command)
app.command("keep")(runs.keep_command)
app.command("export")(runs.export_command)
app.command("analyze")(analyze.analyze_command)
app.command("bench")(bench.command)
app.command("demo")(demo.command)
app.command("reproduce")(reproduce.reproduce_command)
app.command("claims")(claims.claims_command)
app.command("figure")(figures.figure_command)
results = typer.Typer(help="Stored results.", no_args_is_help=True)
results.command("merge")(claims.merge_command)
results.callback()(lambda: None)
app.add_typer(results, name="results")


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
    """Run one command; the exit code is 0, 2 with one line on what to mend, or 130 when interrupted."""
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
            return fail(f"code that was loaded has ended the program (SystemExit {error.code}); take that out of it")
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
