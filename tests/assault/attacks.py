"""Open every attack's files with every command that reads such files: nothing runs, one line says no."""

import contextlib
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from assault.attack_list import (
    IMAGE,
    MARKER,
    ON_BODY_FOLDERS,
    ON_BODY_RUNS,
    ON_CHECKPOINTS,
    ON_FILES,
    ON_RECORDS,
    ON_RUNS,
    ON_SNAPSHOTS,
    ON_STARTS,
    ON_TEXTS,
    OTHER_ID,
)
from assault.runner import Disturbance, Options, Outcome, Trial, call, shown
from assault.scenarios import COMPARE, LANGUAGE, NEW_TASK, THAW, TINY, TRACK, TRAIN, Stock, clear

KIND = "attacks"
MOST_MEMORY = 3 * 2**30
LIMIT_SECONDS = 12.0
CONTROLS = {*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)} - {9, 10}
HARMLESS = (  # to commands that do not read what is attacked
    "metrics",
    "result",
    "number of",
    "accuracy",
    "seconds",
    "steps",
    "baselines",
    "escapes in the device",
    "escapes in the commit",
    "escapes in the folder's name",
    "formula in the folder's name",
    "weights.safetensors that are not finite",
    "loss with",
    "escapes in the corpus",
    "tokens",  # of the train split, which evaluate does not read, nor the tokenizer
    "code in the tokens",
    "train.npy",
    "tokenizer",
)
ITEMS = "--max-pairs 3 --values 20 --vocabulary 40 --test-size 60 --batch 16 --steps 2 --warmup-steps 1"
FROM_BODY = ["train", "needle", *ITEMS.split(), "--model", "hf:body", "--device", "cpu", "--out", "new"]
TRAINING = ("train", "compare")  # these look for the id of what they train
REPORT = ["report", "results", "--out", "page.html", "--files", "files"]
READING_FILES = {
    **{name: [REPORT] for name in ("analysis", "playground", "bench")},
    "construction": [["construct", "results/c.safetensors"]],
}
LOADING = ("evaluate", "analyze", "extract", "export")


def attacks(stock: Stock, folder: Path, options: Options) -> Iterator[Trial]:
    """Yield one trial for each attack and command; if not all are wanted, a spread of them."""
    every = [
        (name, attack, where, command)
        for name, attack, where, commands in planned(stock, options.with_slow)
        if not options.names or name in options.names
        for command in commands
    ]
    chosen = random.Random(options.seed).sample(every, min(options.count, len(every)))
    for number, (name, attack, where, command) in enumerate(sorted(chosen, key=every.index)):
        yield attacked(name, attack, where, command, stock, folder / str(number))


def planned(stock: Stock, with_slow: bool) -> Iterator[tuple[str, Callable[[Path], None], str, list[list[str]]]]:
    """Yield each attack, the folder it is made on, and the commands that read it."""
    run, language_run = (str(path.relative_to(stock.folder)) for path in (stock.run, stock.language_run))
    on_runs = [
        ["show", run],
        ["show", "runs"],
        ["evaluate", run, "--errors", "wrong.jsonl"],
        ["analyze", run, "--what", "variance", "--out", "inside.json"],
        ["extract", run, "--seeds", "1", "--out", "new"],
        ["export", run, "new"],
        [*TRAIN, "--out", "runs"],
        ["load", run],
        ["curves", run],
        ["curves", "runs", "--measure", "loss", "--figure", "curves.png"],
        ["report", run, "--out", "page.html"],
        ["report", "runs", "--out", "page.html", "--files", "files"],
        ["playground", run, "--snapshots", "0", "--out", "play.html"],
        ["train", "needle", "--from", run, *THAW, "--out", "new"],
        ["train", "parentheses", "--body-from", run, *NEW_TASK],
        ["train", "needle", "--embeddings-from", run, *TINY, "--steps", "2", "--out", "new"],
    ]
    compare = ["compare", "needle", *COMPARE, "--trainable", "embeddings", "--device", "cpu", "--out"]
    on_texts = [
        ["prepare", "stories", "--vocabulary", "280", "--out", "text"],
        [*LANGUAGE, "--out", "new"],
        ["sample", language_run, "--tokens", "3"],
        ["evaluate", language_run],
    ]
    on_records = [
        ["results", "merge", "sweep", "--results", "results"],
        ["claims", "table1", "--results", "sweep"],
        ["figure", "init", "--results", "sweep"],
        [*compare, "sweep"],
        [*compare, "sweep", "--markdown"],
        ["report", "sweep", "--out", "page.html", "--files", "files"],
    ]
    for name, attack in ON_RUNS.items():
        yield name, attack, run, [each for each in on_runs if with_slow or each[0] != "export"]
    for name, attack in ON_CHECKPOINTS.items():
        yield name, attack, stock.only("begun/needle/*"), [[*TRAIN, "--out", "begun", "--resume"], ["show", "begun"]]
    (begun,) = stock.folder.glob("sweep/needle/*")
    for name, attack in ON_RUNS.items():  # a sweep that finds a finished run without a record
        yield f"{name}, found by a sweep", attack, str(begun.relative_to(stock.folder)), [[*compare, "sweep"]]
    for name, attack in ON_TEXTS.items():
        yield name, attack, "text", on_texts
    for name, attack in ON_RECORDS.items():
        yield name, attack, "sweep", on_records
    if with_slow:
        body_run, thawed = stock.only("body-runs/needle/*"), stock.only("thawed/needle/*")
        opening = [[word.replace(run, body_run) for word in each] for each in on_runs]
        for name, attack in ON_BODY_RUNS.items():
            yield name, attack, body_run, [each for each in opening if body_run in each and each[0] != "export"]
        on_thawed = [["track", thawed, *TRACK], ["evaluate", thawed], ["report", thawed, "--out", "page.html"]]
        for name, attack in (ON_RUNS | ON_SNAPSHOTS).items():
            yield f"thawed: {name}", attack, thawed, on_thawed[:1] if name in ON_SNAPSHOTS else on_thawed
        for name, attack in ON_STARTS.items():
            yield f"thawed: {name}", attack, thawed, on_thawed
        for name, attack in ON_FILES.items():
            yield name, attack, "results", READING_FILES[name.split()[0]]
        for name, attack in ON_BODY_FOLDERS.items():
            yield name, attack, "body", [FROM_BODY]


def attacked(
    name: str, attack: Callable[[Path], None], where: str, command: list[str], stock: Stock, place: Path
) -> Trial:
    special = {"hf:": ("body", "body-runs"), "thawed:": ("thawed",)}.get(name.split()[0], ())
    stock.put(("runs", "begun", "text", "sweep", "results", *special), place)
    if "sweep/" in where:
        (place / "sweep" / "runs.jsonl").unlink()
    attack(place / where)
    if command[0] not in TRAINING and (place / where).exists():
        take_right_id(place / where)
    if not (place / where).exists():  # renamed
        (new,) = {path.name for path in (place / where).parent.iterdir()}
        command = [word.replace(Path(where).name, new) for word in command]
    disturbance = Disturbance(most_memory=MOST_MEMORY)
    call_of = f"icecore {shown(command)}"
    if command[0] == "load":
        run = command[1]
        disturbance.prepare, command, call_of = (lambda: load(run)), ["--version"], f"icecore.load({run!a})"
    outcome = call(command, place, disturbance, LIMIT_SECONDS)
    failures = failures_of(name, outcome, command[0], place)
    clear(place)
    return Trial(KIND, name, f"{name}: {call_of}", tuple(failures))


def take_right_id(run: Path) -> None:
    """Give a changed run the id of its new config, as an attacker would."""
    from icecore.training.identity import name_of

    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
        config = run / "config.json"
        if run.name != OTHER_ID and config.is_file() and config.stat().st_size < 2**20:
            run.rename(run.with_name(name_of(json.loads(config.read_text()))))


def load(run: str) -> None:
    """Load the run in Python; the only error it may raise is ours."""
    import icecore
    from icecore.errors import InputError, is_out_of_memory

    try:
        icecore.load(run)
    except InputError:
        return
    except Exception as error:
        if not is_out_of_memory(error):
            raise


def failures_of(name: str, outcome: Outcome, command: str, place: Path) -> list[str]:
    found = outcome.faults((0, 2))
    if outcome.timed_out:
        found = [f"no end within {LIMIT_SECONDS:.0f} s"]
    if (place / MARKER).exists():
        found.append("the attacker's code ran")
    shown_controls = sorted({hex(ord(letter)) for letter in outcome.out + outcome.err if ord(letter) in CONTROLS})
    if shown_controls:
        found.append(f"control characters in the output: {' '.join(shown_controls)}")
    for file in [*place.glob("*.html"), *place.glob("files/*.md"), *place.glob("files/*.svg")]:
        text = file.read_text(errors="replace")
        if IMAGE in text:
            found.append(f"markup in {file.name}")
        if any(ord(letter) in CONTROLS for letter in text):
            found.append(f"control characters in {file.name}")
    outside = [path.name for path in place.parent.iterdir() if path != place]
    if outside:
        found.append(f"written outside of the folder: {outside}")
    is_harmless = name.removeprefix("thawed: ").startswith(HARMLESS) or "records" in name
    is_refused = (command in LOADING and not is_harmless) or (command == "train" and name.startswith("checkpoint"))
    if is_refused and outcome.code == 0:
        found.append("not refused")
    if "700.0" in outcome.out:
        found.append("printed as 700.0")
    return found
