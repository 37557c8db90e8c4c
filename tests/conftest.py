"""Every test runs with one thread that waits without spinning, and with cache and state folders of its own.

Its files are in memory where there is room: tests write thousands, and a disk takes milliseconds for each.

With ICECORE_CHECK_SHAPES=1, shapes and types of the package are checked at its boundaries; `make test` does both.
"""

import os
import shutil
import signal
import tempfile

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.pop("COLUMNS", None)  # xdist sets it; a test that needs a width sets its own
MEMORY, ROOM = "/dev/shm", 4 * 2**30
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ["TMPDIR"], tempfile.tempdir = MEMORY, None
CACHE = tempfile.TemporaryDirectory(prefix="icecore-cache-")
os.environ["XDG_CACHE_HOME"] = os.environ["XDG_STATE_HOME"] = CACHE.name

# Under `nohup` and in a shell's background these are ignored, and so they would be in every process that a test starts.
for number, usual in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)

from pathlib import Path

import icecore

CHECKED = ("analysis", "models", "tasks", "training")  # where tensors are: typer tells no true types
SOURCE = Path(icecore.__file__).parent


def checked_modules() -> list[str]:
    """Return the modules with tensors. Triton reads the source of its kernels, which must stay as it is."""
    paths = [path for package in CHECKED for path in (SOURCE / package).rglob("*.py") if "kernels" not in str(path)]
    modules = (path.relative_to(SOURCE.parent).with_suffix("") for path in paths)
    return [".".join(path.parts) for path in modules if path.name != "__init__"]


if os.environ.get("ICECORE_CHECK_SHAPES") == "1":
    import shape_checks

    shape_checks.install(checked_modules())

from icecore.reporting.inside import readout

WHOLE_SAMPLE = readout.SAMPLE
readout.SAMPLE = 1_000  # training items for its solvers, in every test
