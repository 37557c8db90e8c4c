"""Provenance of a stored result."""

import functools
import hashlib
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

COMMIT_VARIABLE = "ICECORE_COMMIT"  # for a copy of the source without a repository
COMMAND_VARIABLE = "ICECORE_COMMAND"  # for a worker that another process started


def provenance(device: str) -> dict[str, str]:
    """Return commit, source, command, device and versions."""
    import torch

    return {
        **origin(),
        "device": device,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def origin() -> dict[str, str]:
    """Return commit, source hash and command."""
    return {"commit": commit(), "source": source(), "command": command()}


def command() -> str:
    """Return the command line of this process; a package's __main__.py gets the package's name."""
    program = Path(sys.argv[0])
    name = program.parent.name if program.name == "__main__.py" else program.name
    return os.environ.get(COMMAND_VARIABLE) or shlex.join([name, *map(without_folder, sys.argv[1:])])


def without_folder(argument: str) -> str:
    """Reduce an absolute path, also in `--flag=PATH`, to its file name: the rest means nothing on other machines."""
    flag, equals, value = argument.rpartition("=") if argument.startswith("--") else ("", "", argument)
    return flag + equals + Path(value).name if Path(value).is_absolute() else argument


def remember_source() -> None:
    """Cache commit and source hash when a long command begins: the files may change before it ends."""
    commit()
    source()


@functools.cache
def source() -> str:
    """Return a hash of the package's files: unlike a commit, it cannot be named by mistake."""
    folder = Path(__file__).parents[1]
    sha = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        sha.update(f"{path.relative_to(folder).as_posix()}\n".encode() + path.read_bytes())
    return sha.hexdigest()[:12]


@functools.cache
def commit() -> str:
    """Return the commit of the source, with a + if files differ from it; `unknown` outside a repository."""
    named = os.environ.get(COMMIT_VARIABLE)
    if named:
        return named
    folder = Path(__file__).parent
    try:
        run = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
            cwd=folder, capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return run.stdout.strip() or "unknown"
