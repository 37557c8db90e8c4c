"""Let calls of the system fail, and damage files; one line must say so, and the next command must recover."""

import errno
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from assault.kills import drawn_event, undisturbed_run
from assault.runner import Disturbance, Options, Outcome, Trial, call, shown
from assault.scenarios import (
    COMPARE,
    LANGUAGE,
    TRAIN,
    Scenario,
    Stock,
    clear,
    half_written,
    recovered,
    scenarios,
)

KIND = "faults"
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EMFILE, errno.ENAMETOOLONG)
LIMIT_SECONDS = 20.0
MOST_MEMORY = 4 * 2**30
REFUSING = ("evaluate", "analyze", "extract", "export", "sample")  # commands that need whole weights


def faults(stock: Stock, folder: Path, options: Options) -> Iterator[Trial]:
    """Yield failing calls of the system and damaged files in turn."""
    chosen = scenarios(stock, options)
    undisturbed = {each.name: undisturbed_run(each, stock, folder) for each in chosen}
    for number in range(options.count):
        chance, again = random.Random(f"{options.seed} {number}"), f"seed {options.seed}, trial {number}"
        if number % 2 == 0:
            scenario = chosen[number // 2 % len(chosen)]
            yield failing_call(scenario, *undisturbed[scenario.name], stock, folder / str(number), chance, again)
        else:
            yield damage(stock, folder / str(number), chance, again, options.with_slow)


def failing_call(
    scenario: Scenario,
    usual: Outcome,
    wanted: dict[str, str],
    stock: Stock,
    place: Path,
    chance: random.Random,
    again: str,
) -> Trial:
    """Let one change of a file fail, or every file stop growing at a random size."""
    if chance.random() < 0.8:
        event, error = drawn_event(usual.events, chance), chance.choice(ERRORS)
        fault = Disturbance(at_event=event, error=error, prepare=scenario.prepare)
        what = f"{errno.errorcode[error]} at change {event}"
    else:
        size = chance.randint(1, 2 ** chance.randint(12, 18))
        fault = Disturbance(most_bytes=max(4096, size), prepare=scenario.prepare)
        what = f"files of at most {max(4096, size)} bytes"
    stock.put(scenario.needs, place)
    outcome = call(scenario.command, place, fault)
    failures = outcome.faults((0, 2)) + half_written(place) + recovered(scenario, place, wanted)
    if not failures:
        clear(place)
    return Trial(
        KIND, f"{scenario.name}, system", f"{again}: icecore {shown(scenario.command)}, {what}", tuple(failures)
    )


def damage(stock: Stock, place: Path, chance: random.Random, again: str, with_slow: bool) -> Trial:
    """Damage one file, let a command read it, then make everything again."""
    kind = chance.choice(list(READERS))
    stock.put(("runs", "begun", "text", "sweep", "results"), place)
    files = sorted(path for path in (place / kind).rglob("*") if path.is_file() and "locks" not in path.parts)
    file = chance.choice(files)
    harm = chance.choice(list(HARMS))
    HARMS[harm](file, chance)
    commands = [each for each in readers(kind, stock) if with_slow or each[0] != "export"]
    command = chance.choice(commands)
    outcome = call(command, place, Disturbance(most_memory=MOST_MEMORY), LIMIT_SECONDS)
    failures = outcome.faults((0, 2))
    if outcome.timed_out:
        failures.append(f"no end within {LIMIT_SECONDS:.0f} s")
    read = {"sample": "language"}.get(command[0], "needle")
    if file.suffix == ".safetensors" and command[0] in REFUSING and read in file.parts and outcome.code == 0:
        failures.append("damaged weights were used")
    is_foreign = harm == "removed" and file.name in ("config.json", "manifest.json")  # then nothing says whose files
    for remedy in [] if is_foreign else REMEDIES[kind]:
        made = call(remedy, place)
        failures += [f"remedy {remedy[0]}: {fault}" for fault in made.faults((0,))]
    clear(place)
    what = f"{file.relative_to(place)} {harm}: icecore {shown(command)}"
    return Trial(KIND, f"{command[0]}, damaged {kind}", f"{again}: {what}", tuple(failures))


def truncate(file: Path, chance: random.Random) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: chance.randrange(len(content))] if content else b"{")


def flip(file: Path, chance: random.Random) -> None:
    content = bytearray(file.read_bytes() or b"\0")
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)


def append(file: Path, chance: random.Random) -> None:
    with file.open("ab") as stream:
        stream.write(chance.randbytes(chance.randint(1, 100)))


def randomize(file: Path, chance: random.Random) -> None:
    file.write_bytes(chance.randbytes(chance.randint(0, 2000)))


def retype(file: Path, chance: random.Random) -> None:
    """Replace one value of a JSON file by one of another type, or drop it; other files get a JSON value."""
    values = [None, True, -1, 0, 10**30, 1e308, "", "x", [], {}, [[]], {"a": 1}, [None], float("nan"), "0", [1, 2, 3]]
    lines = file.read_text(errors="replace").splitlines()
    if file.suffix not in (".json", ".jsonl") or not lines:
        file.write_text(json.dumps(chance.choice(values)))
        return
    whole = json.loads("\n".join(lines) if file.suffix == ".json" else chance.choice(lines))
    places = list(places_in(whole))
    if chance.random() < 0.1 or not places:
        whole = chance.choice(values)
    else:
        holder, key = chance.choice(places)
        if chance.random() < 0.2:
            del holder[key]
        else:
            holder[key] = chance.choice(values)
    file.write_text(json.dumps(whole) + "\n")


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places_in(value[key])


def remove(file: Path, _chance: random.Random) -> None:
    file.unlink()


HARMS: dict[str, Callable[[Path, random.Random], None]] = {
    "truncated": truncate,
    "flipped": flip,
    "longer": append,
    "random": randomize,
    "retyped": retype,
    "retyped again": retype,
    "removed": remove,
}
READERS = ("runs", "begun", "text", "sweep")
REMEDIES: dict[str, list[list[str]]] = {
    "runs": [[*TRAIN, "--out", "runs", "--overwrite"], [*LANGUAGE, "--out", "runs", "--overwrite"]],
    "begun": [[*TRAIN, "--out", "begun", "--overwrite"]],
    "text": [["prepare", "stories", "--vocabulary", "280", "--out", "text", "--overwrite"]],
    "sweep": [["compare", "needle", *COMPARE, "--device", "cpu", "--out", "new"]],
}


def readers(kind: str, stock: Stock) -> list[list[str]]:
    """Return the commands that read such files."""
    run, language_run = (str(path.relative_to(stock.folder)) for path in (stock.run, stock.language_run))
    return {
        "runs": [
            ["show", run],
            ["show", "runs"],
            ["evaluate", run, "--errors", "wrong.jsonl"],
            ["analyze", run, "--what", "variance"],
            ["extract", run, "--seeds", "1", "--out", "new"],
            ["export", run, "new"],
            ["sample", language_run, "--tokens", "5"],
            [*TRAIN, "--out", "runs"],
            [*LANGUAGE, "--out", "runs"],
        ],
        "begun": [["show", "begun"], [*TRAIN, "--out", "begun", "--resume"], [*TRAIN, "--out", "begun", "--resume"]],
        "text": [
            ["prepare", "stories", "--vocabulary", "280", "--out", "text"],
            [*LANGUAGE, "--out", "new"],
            ["sample", language_run, "--tokens", "5"],
            ["evaluate", language_run],
        ],
        "sweep": [
            ["compare", "needle", *COMPARE, "--trainable", "embeddings", "--device", "cpu", "--out", "sweep"],
            ["results", "merge", "sweep", "--results", "results"],
            ["claims", "table1", "--results", "sweep"],
            ["show", "sweep"],
        ],
    }[kind]
