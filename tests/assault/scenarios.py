"""Commands that write files, each with what it starts from, and what it must leave in the end."""

import hashlib
import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assault.runner import Disturbance, Options, Outcome, call


def words(text: str) -> list[str]:
    return text.split()


TINY = words("--max-pairs 3 --values 20 --vocabulary 40 --test-size 60 --width 16 --init matched --seeds 2 --batch 16")
TINY += words("--lr 0.01 --warmup-steps 4 --evaluate-every 20 --device cpu")
TRAIN = ["train", "needle", *TINY, "--steps", "40", "--checkpoint-every", "4"]
LANGUAGE = words("train language --folder text --window 16 --width 16 --steps 12 --batch 8 --device cpu")
COMPARE = words("--max-pairs 2 --values 9 --vocabulary 20 --test-size 20 --widths 8 --seeds 2 --steps 12 --batch 16")
THRESHOLD = [*COMPARE, *words("--lr 0.01 --gains 1 --init matched")]
THAW = words("--trainable all --steps 12 --batch 16 --lr 0.001 --warmup-steps 2 --evaluate-every 6 --device cpu")
NEW_TASK = words("--steps 12 --batch 8 --warmup-steps 2 --test-size 40 --device cpu --out new")
TRACK = words("--items 20 --device cpu --out track.json")
CONSTRUCT = words("construct needle --max-pairs 2 --values 6 --vocabulary 12")
REPOSITORY = Path(__file__).parents[2]
# Times, machines and other things that differ between two runs of the same.
CIRCUMSTANCES = {"seconds", "device", "versions", "commit", "source", "command", "seeds_at_once", "threads", "host"}
ALREADY = ("already", "is not empty", "exists")  # a command that was killed after its last change says so


@dataclass(frozen=True)
class Scenario:
    """A command, the folders of the stock that it starts from, and what its process needs."""

    name: str
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    prepare: Callable[[], object] | None = None
    is_slow: bool = False


def tiny_sweep() -> None:
    """Make the laptop scale tiny, in this process."""
    import tiny_sweep  # noqa: F401


def scenarios(stock: "Stock", options: Options) -> list[Scenario]:
    """Return the wanted commands; without names, all, or all that are fast."""
    return [
        each
        for each in every_scenario(stock)
        if each.name in options.names or (not options.names and (options.with_slow or not each.is_slow))
    ]


def every_scenario(stock: "Stock") -> list[Scenario]:
    run, thaw = str(stock.run.relative_to(stock.folder)), [*THAW, "--checkpoint-every", "2"]
    thawed = stock.only("thawed/needle/*") if stock.with_slow else ""
    figure = ("figure", "init", "--results", "paper", "--out", "init.png")
    reproduce = words("reproduce table2 --seeds 2 --device cpu --only needle --results results --runs runs")
    inside = ("--what", "variance,attention", "--figures", "figures", "--out", "inside.json")
    return [
        Scenario("train", (*TRAIN, "--out", "runs")),
        Scenario("train --resume", (*TRAIN, "--out", "begun", "--resume"), ("begun",)),
        Scenario("train --overwrite", (*TRAIN, "--out", "runs", "--overwrite"), ("runs",)),
        Scenario("train --with-body", (*TRAIN, "--out", "runs", "--with-body")),
        Scenario("train --phases", ("train", "needle", *TINY, "--phases", "embeddings:16,all:16", "--out", "runs")),
        Scenario("train --snapshots", (*TRAIN, "--out", "runs", "--snapshots", "5")),
        Scenario("train --embedding-rank", (*TRAIN, "--out", "runs", "--embedding-rank", "4")),
        Scenario(
            "train --from",
            ("train", "needle", "--from", run, *thaw, "--snapshots", "3", "--out", "new"),
            ("runs",),
            is_slow=True,
        ),
        Scenario("train --body-from", ("train", "parentheses", "--body-from", run, *NEW_TASK), ("runs",), is_slow=True),
        Scenario("train hf:", (*TRAIN, "--model", "hf:body/config.json", "--out", "runs"), ("body",), is_slow=True),
        Scenario("train language", (*LANGUAGE, "--out", "runs"), ("text",)),
        Scenario("compare", ("compare", "needle", *COMPARE, "--device", "cpu", "--out", "sweep")),
        Scenario("threshold", ("threshold", "needle", *THRESHOLD, "--device", "cpu", "--out", "widths")),
        Scenario("reproduce", tuple(reproduce), prepare=tiny_sweep, is_slow=True),
        Scenario("prepare", ("prepare", "stories", "--vocabulary", "280", "--out", "text")),
        Scenario(
            "prepare --overwrite",
            ("prepare", "stories", "--vocabulary", "290", "--out", "text", "--overwrite"),
            ("text",),
        ),
        Scenario("extract", ("extract", run, "--seeds", "1", "--out", "extracted"), ("runs",)),
        Scenario("export", ("export", run, "exported"), ("runs",), is_slow=True),
        Scenario("evaluate --errors", ("evaluate", run, "--errors", "wrong.jsonl", "--device", "cpu"), ("runs",)),
        Scenario("analyze --figures", ("analyze", run, *inside, "--device", "cpu"), ("runs",), is_slow=True),
        Scenario("track", ("track", thawed, *TRACK, "--figure", "track.png"), ("runs", "thawed"), is_slow=True),
        Scenario(
            "report",
            ("report", "runs", "results", "--files", "files", "--out", "page.html"),
            ("runs", "results"),
            is_slow=True,
        ),
        Scenario("playground", ("playground", run, "--snapshots", "3", "--out", "play.html"), ("runs",), is_slow=True),
        Scenario("curves", ("curves", "runs", "--figure", "curves.png"), ("runs",), is_slow=True),
        Scenario("construct", (*CONSTRUCT, "--out", "c.safetensors"), is_slow=True),
        Scenario("figure", figure, ("paper",), is_slow=True),
        Scenario("results merge", ("results", "merge", "sweep", "--results", "results"), ("sweep", "results")),
        Scenario("data", ("data", "needle", "--max-pairs", "3", "--count", "300", "--out", "items.jsonl")),
    ]


class Stock:
    """Folders that trials start from: finished and stopped runs, a prepared text, records of two machines."""

    def __init__(self, folder: Path, with_slow: bool) -> None:
        self.folder, self.with_slow = folder, with_slow
        folder.mkdir()
        (folder / "paper").mkdir()
        for name in ("runs.jsonl", "inside.jsonl"):
            shutil.copy(REPOSITORY / "results" / name, folder / "paper" / name)
        self.must(*TRAIN, "--out", "runs")
        self.must("prepare", "stories", "--vocabulary", "280", "--out", "text")
        self.must("compare", "needle", *COMPARE, "--trainable", "embeddings", "--device", "cpu", "--out", "sweep")
        self.must("compare", "needle", *COMPARE, "--trainable", "unembed", "--device", "cpu", "--out", "results")
        self.must(*LANGUAGE, "--out", "runs")
        (self.run,) = folder.glob("runs/needle/*")
        (self.language_run,) = folder.glob("runs/language/*")
        if with_slow:
            self.make_rest()
        half = call([*TRAIN, "--out", "begun"], folder, Disturbance(signal.SIGKILL, at_event=40))
        assert half.code == -signal.SIGKILL, half
        assert list(folder.glob("begun/*/*/checkpoint.safetensors"))

    def make_rest(self) -> None:
        """Make `body`, a folder of transformers with weights; a run of a random body of transformers; a thawed run."""
        made = call(["--version"], self.folder, Disturbance(prepare=save_body))
        assert made.code == 0, made
        self.must(*TRAIN, "--model", "hf:body/config.json", "--out", "body-runs")
        thaw = ("--from", str(self.run.relative_to(self.folder)), "--snapshots", "2", "--out", "thawed")
        self.must("train", "needle", *THAW, *thaw)

    def only(self, pattern: str) -> str:
        """Return the only folder of a pattern, from the stock's folder on."""
        (found,) = self.folder.glob(pattern)
        return str(found.relative_to(self.folder))

    def must(self, *arguments: str) -> None:
        outcome = call(arguments, self.folder)
        assert outcome.code == 0, (arguments, outcome)

    def put(self, names: Sequence[str], into: Path) -> Path:
        """Copy these folders into a new one."""
        into.mkdir()
        for name in names:
            shutil.copytree(self.folder / name, into / name)
        return into


def save_body() -> None:
    """Save a tiny Llama with weights, as transformers does."""
    import transformers

    sizes: dict[str, Any] = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 24,
    }
    config = transformers.LlamaConfig(**sizes, vocab_size=60, tie_word_embeddings=False)
    transformers.LlamaForCausalLM(config).save_pretrained("body")


def run_again(scenario: Scenario, folder: Path) -> Outcome:
    """Do what a user does after a crash: the same command, with --resume if it asks for that."""
    command = [word for word in scenario.command if word != "--resume"]
    outcome = call(command, folder, Disturbance(prepare=scenario.prepare))
    if outcome.code == 2 and "add --resume" in outcome.err:
        outcome = call([*command, "--resume"], folder, Disturbance(prepare=scenario.prepare))
    return outcome


def recovered(scenario: Scenario, folder: Path, wanted: dict[str, str]) -> list[str]:
    """Run the command again; return what then differs from an undisturbed run, leftovers too."""
    outcome = run_again(scenario, folder)
    is_done = outcome.code == 2 and any(word in outcome.err for word in ALREADY)
    found = [f"again: {fault}" for fault in outcome.faults((0, 2) if is_done else (0,))]
    return found + (differences(facts_of(folder), wanted) if not found else [])


def differences(found: dict[str, str], wanted: dict[str, str]) -> list[str]:
    names = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    kinds = {(True, False): "left behind", (False, True): "missing", (True, True): "other content"}
    return [f"{kinds[name in found, name in wanted]}: {name}" for name in names]


def facts_of(folder: Path) -> dict[str, str]:
    """Return a digest of every file, without what may differ between two runs of the same."""
    return {
        str(path.relative_to(folder)): digest_of(path)
        for path in sorted(folder.rglob("*"))
        if not path.is_dir() and "locks" not in path.parts
    }


def digest_of(path: Path) -> str:
    if path.name == "metrics.jsonl":
        return "written at moments that depend on time"
    content = path.read_bytes()
    if path.suffix in (".json", ".jsonl") and path.name != "tokenizer.json":
        lines = [content] if path.suffix == ".json" else content.splitlines()
        values = (json.dumps(stripped(json.loads(line)), sort_keys=True) for line in lines)
        content = "\n".join(sorted(values)).encode()  # a population that failed is recorded later
    if path.suffix == ".html":
        content = re.sub(rb'"at":"[^"]*"', b"", content)  # when it was made
    if path.suffix == ".safetensors":
        content = repr(tensors_of(path)).encode()
    return hashlib.sha256(content).hexdigest()


def tensors_of(path: Path) -> Any:
    """Return name, type, shape and bytes of every tensor."""
    import safetensors

    with safetensors.safe_open(path, framework="np") as file:
        each = {name: file.get_tensor(name) for name in sorted(file.keys())}
    return [
        (name, value.dtype, value.shape, hashlib.sha256(value.tobytes()).hexdigest()) for name, value in each.items()
    ]


def stripped(value: Any) -> Any:
    if isinstance(value, list):
        return [stripped(each) for each in value]
    if isinstance(value, dict):
        return {key: stripped(each) for key, each in value.items() if key not in CIRCUMSTANCES}
    return value


def half_written(folder: Path) -> list[str]:
    """Return the visible files that are not whole. Lines that were being appended are skipped by every reader."""
    import numpy

    found = []
    for path in folder.rglob("*"):
        if any(part.startswith(".") for part in path.relative_to(folder).parts) or path.is_dir():
            continue
        try:
            if path.suffix == ".json":
                json.loads(path.read_bytes())
            elif path.suffix == ".safetensors":
                tensors_of(path)
            elif path.suffix == ".npy":
                numpy.load(path)
            elif path.suffix == ".png":
                assert path.read_bytes().endswith(b"IEND\xaeB`\x82")
        except Exception:
            found.append(f"half-written: {path.relative_to(folder)}")
    return found


def clear(folder: Path) -> None:
    if os.environ.get("ICECORE_ASSAULT_KEEP") is None:
        shutil.rmtree(folder)
