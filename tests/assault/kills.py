"""Kill commands that write files, at random moments and at every change of a file, and run them again."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from assault.runner import Disturbance, Options, Outcome, Trial, call
from assault.scenarios import (
    Scenario,
    Stock,
    clear,
    differences,
    facts_of,
    half_written,
    recovered,
    scenarios,
)

KIND = "kills"
GENTLE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
FRESH_EVERY = 40  # one trial of so many is a process of its own, from the interpreter's start on


def kills(stock: Stock, folder: Path, options: Options) -> Iterator[Trial]:
    """Yield trials over all scenarios in turn. Three of four kills cannot be caught."""
    chosen = scenarios(stock, options)
    undisturbed = {each.name: undisturbed_run(each, stock, folder) for each in chosen}
    for number in range(options.count):
        scenario = chosen[number % len(chosen)]
        outcome, wanted = undisturbed[scenario.name]
        yield kill(scenario, outcome, wanted, stock, folder / str(number), options.seed, number)


def undisturbed_run(scenario: Scenario, stock: Stock, folder: Path) -> tuple[Outcome, dict[str, str]]:
    """Run a scenario twice; return the outcome and what it left, which must be the same both times."""
    found = []
    for which in ("once", "twice"):
        place = stock.put(scenario.needs, folder / which)
        outcome = call(scenario.command, place, Disturbance(prepare=scenario.prepare))
        assert outcome.code == 0, (scenario.name, outcome)
        found.append((outcome, facts_of(place)))
        clear(place)
    assert found[0][1] == found[1][1], (scenario.name, differences(found[0][1], found[1][1]))
    return found[1]


def kill(
    scenario: Scenario, usual: Outcome, wanted: dict[str, str], stock: Stock, place: Path, seed: int, number: int
) -> Trial:
    chance = random.Random(f"{seed} {number}")
    chosen = signal.SIGKILL if chance.random() < 0.75 else chance.choice(GENTLE)
    is_fresh = number % FRESH_EVERY == FRESH_EVERY - 1 and scenario.prepare is None
    by_event = chance.random() < 0.6 and usual.events > 0 and not is_fresh
    event = drawn_event(usual.events, chance) if by_event else None
    moment = None if by_event else chance.uniform(0.0, 1.05 * usual.seconds)
    stock.put(scenario.needs, place)
    if is_fresh:
        chosen = signal.SIGKILL
        outcome = killed_process(scenario.command, place, chance.uniform(0.2, 4.0))
    else:
        strike = Disturbance(chosen, moment, event, prepare=scenario.prepare)
        outcome = call(scenario.command, place, strike)
    codes = (0, -chosen) if chosen == signal.SIGKILL else (0, -chosen, 128 + chosen)
    failures = outcome.faults(codes) + half_written(place) + recovered(scenario, place, wanted)
    when = "in a process of its own" if is_fresh else f"at change {event}" if by_event else f"after {moment:.3f} s"
    if not failures:
        clear(place)
    again = f"seed {seed}, trial {number}: icecore {' '.join(scenario.command)}, {chosen.name} {when}"
    return Trial(KIND, scenario.name, again, tuple(failures))


def drawn_event(count: int, chance: random.Random) -> int:
    """Return the number of a change: half of them among the first and the last few, where most is at stake."""
    few = min(8, count)
    return chance.choice(
        (chance.randint(1, count), chance.choice((chance.randint(1, few), count + 1 - chance.randint(1, few))))
    )


def killed_process(command: Sequence[str], place: Path, after_seconds: float) -> Outcome:
    """Kill a process that was started as users start it."""
    began = time.monotonic()
    started = subprocess.Popen(
        [sys.executable, "-m", "icecore", *command],
        cwd=place,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = started.communicate(timeout=after_seconds)
    except subprocess.TimeoutExpired:
        started.kill()
        out, err = started.communicate()
    return Outcome(started.returncode, out, err, time.monotonic() - began)
