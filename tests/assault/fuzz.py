"""Call the command line with absurd flags and values, drawn from its own parameters."""

import enum
import inspect
import os
import random
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from assault.runner import Disturbance, Options, Outcome, Trial, call, shown
from assault.scenarios import COMPARE, CONSTRUCT, LANGUAGE, REPOSITORY, THAW, THRESHOLD, TINY, TRACK, Stock, clear

KIND = "fuzz"
MOST_MEMORY = 4 * 2**30
LIMIT_SECONDS = 5.0
NUMBERS = ["0", "-1", "1", "2", "3", "7", "8", "64", "1000", "2147483648", "9223372036854775808", "1" + "0" * 30]
NUMBERS += ["1e3", "1.5", "-0.0", "1e-320", "1e308", "1e400", "nan", "inf", "-inf", "0x10", "1_000", "٣", "1,2", "0,0"]
TEXTS = [
    "",
    " ",
    "a",
    "all",
    "none",
    "None",
    "null",
    "true",
    "[]",
    "{}",
    "--",
    "-",
    "-h",
    "--help",
    "=",
    "\\",
    "'",
    "🐦",
]
TEXTS += ["a b", "a\nb", "\x1b[31mred", "\u202eevil", "\udcff", "ä" * 300, "x" * 100_000, "%s%n", "$(id)", "../../x"]
TEXTS += [
    "embeddings",
    "embeddings:5,all:5",
    "all:5:nan",
    "needle",
    "language",
    "lstm",
    "linearized",
    "released",
    "fig7",
]
PATHS = [".", "..", "empty", "loop", "pipe", "null", "full", "zero", "broken.py", "task.py", "task.py:Reversal", "text"]
PATHS += [
    "runs",
    "sweep",
    "note.txt",
    "note.txt/x",
    "hf:body",
    "hf:LlamaConfig",
    "empty/new/deep",
    "binary.json",
    "~",
    "a\nb",
    "x" * 300,
    "out.png",
]
EXITS = (0, 2)
INTERRUPTED = 130
SLOW = (
    "bench",
    "demo",
    "reproduce",
    "targets",
    "export",
    "figure",
    "claims",
    "track",
    "report",
    "playground",
    "construct",
)
NOT_HERE = ("executor", "address")  # a cluster has tests of its own


def fuzz(stock: Stock, folder: Path, options: Options) -> Iterator[Trial]:
    """Yield calls that were made wrong in one to four places."""
    valid = [
        (name, words)
        for name, words in valid_calls(stock)
        if name in options.names or (not options.names and (options.with_slow or name not in SLOW))
    ]
    known = {name: options_of(name) for name, _ in valid}
    for number in range(options.count):
        chance, again = random.Random(f"{options.seed} {number}"), f"seed {options.seed}, trial {number}"
        name, words = valid[number % len(valid)]
        for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
            words = mutated(words, known[name], chance)
        yield one_call(name, [*name.split(), *words], stock, folder / str(number), again)


def valid_calls(stock: Stock) -> Iterator[tuple[str, list[str]]]:
    """Yield a valid call for each command, as its name and the other words."""
    run, language_run = (str(path.relative_to(stock.folder)) for path in (stock.run, stock.language_run))
    yield "train", ["needle", *TINY, "--steps", "3", "--out", "new"]
    yield "compare", ["needle", *COMPARE, "--trainable", "embeddings", "--out", "new"]
    yield "threshold", ["needle", *THRESHOLD, "--out", "new"]
    yield "show", [run]
    yield "evaluate", [run, "--by-length", "--errors", "wrong.jsonl"]
    yield "analyze", [run, "--what", "variance,attention", "--items", "20", "--out", "inside.json"]
    yield "sample", [language_run, "--tokens", "5", "--prompt", "Mia"]
    yield "tasks", ["needle"]
    yield "data", ["needle", "--count", "20", "--out", "items.jsonl"]
    yield "prepare", ["mine", "--from", "note.txt", "--vocabulary", "280", "--out", "new"]
    yield "extract", [run, "--seeds", "1", "--out", "new"]
    yield "export", [run, "new"]
    yield "reproduce", ["table1", "--only", "needle, Random", "--dry-run", "--results", "new"]
    yield "claims", ["table1", "--results", "paper"]
    yield "figure", ["init", "--results", "paper", "--out", "init.png"]
    yield "results merge", ["sweep", "--results", "results"]
    yield "train", [*LANGUAGE[1:], "--out", "new"]
    yield "curves", ["runs", "--measure", "loss", "--figure", "curves.png"]
    yield "track", [stock.only("thawed/needle/*") if stock.with_slow else "", *TRACK, "--figure", "track.png"]
    yield "report", [run, "sweep", "--files", "files", "--out", "page.html"]
    yield "playground", [run, "--snapshots", "2", "--out", "play.html"]
    yield "construct", [*CONSTRUCT[1:], "--out", "c.safetensors"]
    yield "train", ["needle", "--from", run, *THAW, "--snapshots", "2", "--out", "new"]
    yield "train", ["needle", "--body-from", run, *TINY, "--steps", "3", "--out", "new"]
    yield "train", ["needle", *TINY, "--steps", "3", "--embedding-rank", "4", "--snapshots", "2", "--out", "new"]
    yield "targets", ["--seeds", "1"]
    yield "bench", ["--what", "data", "--task", "needle"]
    yield "demo", ["--out", "new"]


def options_of(name: str) -> list[tuple[str, type]]:
    """Return the flags of a command, each with the type of its value; those of bool have none."""
    from icecore.cli import COMMANDS, WITH_TASK_SETTINGS, claims
    from icecore.tasks import TASKS
    from icecore.tasks.loading import setting_fields

    functions = {"results merge": claims.merge_command}
    for commands in COMMANDS.values():
        functions |= commands
    hints = typing.get_type_hints(functions[name])
    found = []
    for parameter in inspect.signature(functions[name]).parameters.values():
        if isinstance(parameter.default, typer.models.OptionInfo) and parameter.name not in NOT_HERE:
            flags = parameter.default.param_decls or [f"--{parameter.name.replace('_', '-')}"]
            kinds = [hints[parameter.name], *typing.get_args(hints[parameter.name])]
            found.append((flags[0], next(kind for kind in kinds if isinstance(kind, type) and kind is not list)))
    if name in WITH_TASK_SETTINGS:
        fields = {field.name for task in TASKS.values() for field in setting_fields(task)}
        found += [(f"--{field.replace('_', '-')}", int) for field in sorted(fields)]
    return found


def mutated(words: list[str], options: Sequence[tuple[str, type]], chance: random.Random) -> list[str]:
    """Return the words with one mistake."""
    place = chance.randrange(len(words)) if words else 0
    kind = chance.choice(("option", "option", "option", "value", "value", "drop", "twice", "letter", "swap"))
    if kind == "option" or not words:
        flag, type_of = chance.choice(options)
        given = [flag] if type_of is bool else [flag, value_for(type_of, chance)]
        return [*words[:place], *given, *words[place:]] if chance.random() < 0.1 else [*words, *given]
    if kind == "value":
        return [*words[:place], value_for(None, chance), *words[place + 1 :]]
    if kind == "drop":
        return words[:place] + words[place + 1 :]
    if kind == "twice":
        return [*words[:place], words[place], *words[place:]]
    if kind == "swap":
        other = chance.randrange(len(words))
        words = list(words)
        words[place], words[other] = words[other], words[place]
        return words
    position = chance.randint(0, len(words[place]))
    letter = chance.choice("0-=,.:/ \x1bé\udc80")
    word = words[place][:position] + letter + words[place][position + chance.randint(0, 1) :]
    return [*words[:place], word, *words[place + 1 :]]


def value_for(kind: type | None, chance: random.Random) -> str:
    """Return a value that mostly has the type, and mostly is absurd."""
    if kind is None or chance.random() < 0.15:
        return chance.choice([*NUMBERS, *TEXTS, *PATHS])
    if issubclass(kind, enum.Enum):
        return str(chance.choice(list(kind)).value)
    return chance.choice(NUMBERS if issubclass(kind, int | float) else PATHS if issubclass(kind, Path) else TEXTS)


def furnish(place: Path) -> None:
    """Add what a folder should not hold."""
    (place / "empty").mkdir()
    (place / "loop").symlink_to("loop")
    os.mkfifo(place / "pipe")
    for name in ("null", "full", "zero"):
        (place / name).symlink_to(f"/dev/{name}")
    (place / "note.txt").write_text("One cat sat.\n<|endoftext|>\nTwo dogs ran.\n<|endoftext|>\n" * 20)
    (place / "broken.py").write_text("def (")
    (place / "binary.json").write_bytes(bytes(range(256)))
    (place / "task.py").write_text((REPOSITORY / "examples" / "reversal.py").read_text())


def one_call(name: str, words: list[str], stock: Stock, place: Path, again: str) -> Trial:
    stock.put(("runs", "text", "sweep", "results", "paper", *(["thawed", "body"] if stock.with_slow else [])), place)
    furnish(place)
    outcome = call(words, place, Disturbance(most_memory=MOST_MEMORY), LIMIT_SECONDS)
    clear(place)
    return Trial(KIND, name, f"{again}: icecore {shown(words)}", failures_of(outcome))


def failures_of(outcome: Outcome) -> tuple[str, ...]:
    if not outcome.timed_out:
        found = outcome.faults(EXITS)
    elif outcome.code < 0:
        found = [f"neither ended within {LIMIT_SECONDS:.0f} s nor at Ctrl-C"]
    else:
        found = outcome.faults((*EXITS, INTERRUPTED))
    if any(ord(letter) in (0x1B, 0x202E, 0x9B) for letter in outcome.err + outcome.out):
        found.append("escape sequences in the output")
    return tuple(found)
