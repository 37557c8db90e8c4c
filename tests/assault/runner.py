"""Run the command line in a forked process, where it can be killed, starved and lied to; collect what failed."""

import contextlib
import importlib
import io
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HARNESS_FAILED = 99
PATIENCE = float(os.environ.get("ICECORE_ASSAULT_PATIENCE", "1"))  # a factor on all limits, for a busy machine
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink")


@dataclass(frozen=True)
class Outcome:
    """Outcome of a process: exit code, minus the signal's number if a signal ended it, and both outputs."""

    code: int
    out: str
    err: str
    seconds: float
    timed_out: bool = False  # it was interrupted after its time
    events: int = 0  # changes of files under its folder

    def faults(self, codes: Iterable[int]) -> list[str]:
        """Return what is wrong with the outcome; the allowed exit codes are given."""
        errors = [line for line in self.err.splitlines() if line.startswith("error:")]
        last = (self.err.strip().splitlines() or [""])[-1][-200:]
        found = []
        if "Traceback (most recent call last)" in self.err + self.out:
            found.append(f"traceback: {last}")
        if self.code not in codes:
            found.append(f"exit code {self.code}: {last}")
        if len(errors) > 1 or (self.code == 2 and len(errors) != 1):
            found.append(f"{len(errors)} error lines for exit code {self.code}: {last}")
        return found


@dataclass(frozen=True)
class Trial:
    """One call, or a call and what must hold afterwards. `again` is what repeats it."""

    kind: str
    command: str
    again: str
    failures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Options:
    """Number of trials of a kind, and their commands. The same seed gives the same trials."""

    count: int
    seed: int
    names: Sequence[str] = ()
    with_slow: bool = True


@dataclass
class Disturbance:
    """Trial of a process: a signal or an error at a moment or at a change of files, and limits."""

    signal: int | None = None
    after_seconds: float | None = None
    at_event: int | None = None  # with a signal, the process sends it to itself; with an error, the call raises it
    error: int | None = None  # errno
    most_bytes: int | None = None  # per file
    most_memory: int | None = None  # bytes of address space beyond those of now
    prepare: Callable[[], object] | None = None  # called in the process first
    environment: dict[str, str] = field(default_factory=dict)


def call(
    arguments: Sequence[str], folder: Path, disturbance: Disturbance | None = None, limit_seconds: float = 60
) -> Outcome:
    """Run `icecore ARGUMENTS` in `folder`, in a fork of this process. After the limit it gets Ctrl-C, then kill -9."""
    chosen = disturbance or Disturbance()
    outputs = [tempfile.TemporaryFile() for _ in range(3)]  # noqa: SIM115 (closed below)
    sys.stdout.flush()
    sys.stderr.flush()
    limit_seconds *= PATIENCE
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        for output in outputs:
            stack.enter_context(output)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads; this process has none
            pid = os.fork()
        if pid == 0:
            run_in_child(arguments, folder, chosen, [output.fileno() for output in outputs])
        if chosen.after_seconds is not None and chosen.signal is not None and not ended(pid, chosen.after_seconds):
            os.kill(pid, chosen.signal)
        timed_out = not ended(pid, limit_seconds)
        if timed_out:
            os.kill(pid, signal.SIGINT)
            if not ended(pid, 20):
                os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        for output in outputs:
            output.seek(0)
        out, err, events = (output.read().decode(errors="replace") for output in outputs)
    code = os.waitstatus_to_exitcode(status)
    return Outcome(code, out, err, time.monotonic() - began, timed_out, events.count("."))


def ended(pid: int, within_seconds: float) -> bool:
    """Wait for a child; tell whether it ended in time. It can be waited for again."""
    until = time.monotonic() + within_seconds
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() >= until:
            return False
        time.sleep(0.001)
    return True


def run_in_child(arguments: Sequence[str], folder: Path, disturbance: Disturbance, handles: Sequence[int]) -> None:
    """Become `icecore ARGUMENTS`. Never returns."""
    code = HARNESS_FAILED
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in (1, 2):
            os.dup2(handles[number - 1], number)
            name = {1: "stdout", 2: "stderr"}[number]
            setattr(sys, name, io.TextIOWrapper(os.fdopen(number, "wb", closefd=False), line_buffering=number == 2))
        os.environ.update(disturbance.environment)
        limit(disturbance)
        if disturbance.prepare is not None:
            disturbance.prepare()
        watch_changes(folder.resolve(), disturbance, handles[2])
        sys.argv = ["icecore", *arguments]
        from icecore.__main__ import run

        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        except KeyboardInterrupt:  # it came before the first line of ours
            os._exit(128 + signal.SIGINT)
        run()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def limit(disturbance: Disturbance) -> None:
    if disturbance.most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (disturbance.most_bytes, disturbance.most_bytes))
    if disturbance.most_memory is not None:
        now = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
        most = now + disturbance.most_memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def watch_changes(folder: Path, disturbance: Disturbance, handle: int) -> None:
    """Count the changes of files under the folder, and strike at the chosen one, before it happens."""
    count, fsync = 0, os.fsync

    def change(event: str, path: str) -> None:
        nonlocal count
        os.write(handle, b".")
        count += 1
        if count == disturbance.at_event:
            if disturbance.error is not None:
                raise OSError(disturbance.error, os.strerror(disturbance.error), path if event != "fsync" else None)
            if disturbance.signal is not None:
                os.kill(os.getpid(), disturbance.signal)

    def on_event(event: str, details: tuple[Any, ...]) -> None:
        is_written = event == "open" and isinstance(details[2], int) and details[2] & WRITES
        if (is_written or event in CHANGES) and isinstance(details[0], str | bytes | os.PathLike):
            path = os.path.abspath(os.fsdecode(details[0]))  # noqa: PTH100 (a link stays a link)
            if path.startswith(str(folder)):
                change(event, path)

    def watched_fsync(file: Any) -> None:
        change("fsync", "")
        fsync(file)

    if disturbance.most_bytes is None:  # the count is kept in a file
        os.fsync = watched_fsync
        sys.addaudithook(on_event)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Yield a folder for trials. The user's own folders are in it too, so that nothing of this user is touched."""
    with tempfile.TemporaryDirectory(prefix="icecore-assault-") as name:
        folder = Path(name).resolve()
        names = ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
        settings = {each: str(folder / each.lower()) for each in names}
        settings |= {"TOKENIZERS_PARALLELISM": "false", "SOURCE_DATE_EPOCH": "0", "COLUMNS": "160"}
        before = {each: os.environ.get(each) for each in settings}
        os.environ.update(settings)
        try:
            yield folder
        finally:
            for each, value in before.items():
                os.environ.pop(each) if value is None else os.environ.update({each: value})


def warm(with_huggingface: bool = False) -> None:
    """Import once what every fork needs. Nothing is computed, so that no thread is lost in a fork."""
    modules = ["matplotlib.backends.backend_agg", "matplotlib.backends.backend_pdf", "tokenizers", "icecore.cli"]
    modules += ["torch.fx.experimental.symbolic_shapes", "rich.progress", "rich.table"]  # for gradients; for output
    modules += [
        f"icecore.{name}" for name in ("paper", "reporting.inside", "sweeps.runner", "text.prepare", "page.report")
    ]
    modules += ["transformers.models.gpt2.modeling_gpt2"] * with_huggingface
    for module in modules:
        importlib.import_module(module)
    import torch

    torch.set_num_threads(1)


def shown(words: Iterable[str]) -> str:
    """Return words as one printable line; odd ones as Python writes them."""
    short = (word if len(word) < 300 else f"{word[:20]}... ({len(word)} letters)" for word in words)
    return " ".join(word if word.isprintable() and word and " " not in word else ascii(word) for word in short)


def table_of(trials: Sequence[Trial]) -> str:
    """Return counts by kind and command, then a line for each failure."""
    rows = {}
    for trial in trials:
        number, failed = rows.get((trial.kind, trial.command), (0, 0))
        rows[trial.kind, trial.command] = number + 1, failed + bool(trial.failures)
    lines = [f"{'kind':<8} {'command':<28} {'trials':>7} {'failed':>7}"]
    for (kind, command), (number, failed) in rows.items():
        lines.append(f"{kind:<8} {command:<28} {number:>7,} {failed:>7,}")
    for kind in dict.fromkeys(trial.kind for trial in trials):
        own = [trial for trial in trials if trial.kind == kind]
        lines.append(f"{kind:<8} {'all':<28} {len(own):>7,} {sum(bool(trial.failures) for trial in own):>7,}")
    for trial in trials:
        lines += [f"FAILED {trial.kind}, {trial.again}: {failure}" for failure in trial.failures]
    return "\n".join(lines)
