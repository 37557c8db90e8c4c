"""Kill, fuzz, starve and attack the command line; print counts and every failure; exit with 1 if there is one."""

import argparse
import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; only a process without threads can fork

from assault import attacks, faults, fuzz, kills
from assault.runner import Options, Trial, scratch, table_of, warm
from assault.scenarios import Stock

CAMPAIGNS = {"kills": kills.kills, "fuzz": fuzz.fuzz, "faults": faults.faults, "attacks": attacks.attacks}
COUNTS = {"kills": 600, "fuzz": 1200, "faults": 400, "attacks": 10_000}  # all attacks
SMALL = {"kills": 5, "fuzz": 20, "faults": 6, "attacks": 20}
SMALL_NAMES = {
    "kills": ("train", "prepare --overwrite", "extract", "evaluate --errors", "results merge"),
    "faults": ("train", "prepare --overwrite", "extract"),
    "attacks": (
        "task.py in a run of needle",
        "code outside the run",
        "task.py is a link",
        "weights are a pickle",
        "seconds are a list",
        "escapes in the device",
        "another run's id",
        "config.json is a pipe",
        "tokens are a pickle",
        "records with accuracy 7.0",
        "records with another run's id",
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="assault", description=__doc__)
    parser.add_argument("--kinds", default=",".join(CAMPAIGNS), help="Kinds, with commas.")
    parser.add_argument("--count", type=int, help="Trials per kind. Default: hundreds, and all attacks.")
    parser.add_argument("--seed", type=int, default=0, help="The same seed gives the same trials.")
    parser.add_argument("--only", default="", help="Commands or attacks, with semicolons.")
    parser.add_argument("--small", action="store_true", help="The part that the test suite runs.")
    given = parser.parse_args()
    trials: list[Trial] = []
    with scratch() as folder:
        warm(with_huggingface=not given.small)
        stock = Stock(folder / "stock", not given.small)
        for kind in given.kinds.split(","):
            (folder / kind).mkdir()
            names = tuple(given.only.split(";")) if given.only else SMALL_NAMES.get(kind, ()) if given.small else ()
            options = Options(
                given.count or (SMALL if given.small else COUNTS)[kind], given.seed, names, not given.small
            )
            for trial in CAMPAIGNS[kind](stock, folder / kind, options):
                trials.append(trial)
                report(trials)
    print(table_of(trials))
    return int(any(trial.failures for trial in trials))


def report(trials: list[Trial]) -> None:
    """Say on standard error how far it is, and every failure as soon as it is known."""
    for failure in trials[-1].failures:
        print(f"FAILED {trials[-1].kind}, {trials[-1].again}: {failure}", file=sys.stderr, flush=True)
    if len(trials) % 50 == 0:
        failed = sum(bool(trial.failures) for trial in trials)
        print(f"{time.strftime('%H:%M:%S')} {len(trials):,} trials, {failed:,} failed", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
