"""Entry point of `make assault`."""

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; forks need a process without threads
sys.path.insert(0, str(Path(__file__).parents[1]))

from assault import attacks, faults, fuzz, kills
from assault.runner import Trial, scratch, table_of

CAMPAIGNS = {"kills": kills.kills, "fuzz": fuzz.fuzz, "faults": faults.faults, "attacks": attacks.attacks}
COUNTS = {"kills": 500, "fuzz": 1000, "faults": 200, "attacks": 10_000}  # all attacks


def main() -> int:
    parser = argparse.ArgumentParser(prog="assault", description=__doc__)
    parser.add_argument("--kinds", default=",".join(CAMPAIGNS), help="Kinds, with commas.")
    parser.add_argument("--count", type=int, help="Trials per kind. Default: a few hundred, and all attacks.")
    parser.add_argument("--seed", type=int, default=0, help="The same seed gives the same trials.")
    parser.add_argument("--only", default="", help="Commands or attacks, with commas.")
    given = parser.parse_args()
    trials: list[Trial] = []
    for kind in given.kinds.split(","):
        with scratch() as folder:
            names = [name for name in given.only.split(",") if name]
            for trial in CAMPAIGNS[kind](folder, given.count or COUNTS[kind], given.seed, names):
                trials.append(trial)
                report(trials)
    print(table_of(trials))
    return int(any(trial.failures for trial in trials))


def report(trials: list[Trial]) -> None:
    """Say on standard error how far it is, and every failure as soon as it is known."""
    for failure in trials[-1].failures:
        print(f"FAILED {trials[-1].kind}, {trials[-1].again}: {failure}", file=sys.stderr)
    if len(trials) % 50 == 0:
        failed = sum(bool(trial.failures) for trial in trials)
        print(f"{time.strftime('%H:%M:%S')} {len(trials):,} trials, {failed:,} failed", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
