"""Runs, texts and records as an attacker would send them. Each attack changes a folder of good ones."""

import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

MARKER = "PWNED"  # in the folder in which commands run; whoever executes an attack's code makes it
OTHER_ID = "0123456789ab"
IMAGE = "<img src=x onerror=alert(1)>"
MARKUP = f"</script>{IMAGE}"
ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp.exe\u2066\r"
TASK = """
import pathlib
pathlib.Path("PWNED").touch()
from icecore.tasks import Needle
class Evil(Needle):
    name = "needle"
"""
MODEL = TASK.replace("tasks import Needle", "models import Transformer").replace("Needle", "Transformer")
MODEL = MODEL.replace('name = "needle"', 'name = "transformer"')
RUN_FILES = ("config.json", "result.json", "metrics.jsonl", "weights.safetensors")
TEXT_FILES = ("manifest.json", "tokenizer.json", "train.npy", "validation.npy", "token_bytes.npy")


DEEP = b"[" * 200_000


class Pickled:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path(MARKER),))


def edit(file: Path, change: Callable[[Any], object]) -> None:
    value = json.loads(file.read_text())
    change(value)
    file.write_text(json.dumps(value))


def set_at(file: str, *keys: Any, to: Any) -> Callable[[Path], None]:
    """Return an attack that sets one value in a JSON file of a run."""

    def attack(run: Path) -> None:
        def change(value: Any) -> None:
            for key in keys[:-1]:
                value = value[key]
            value[keys[-1]] = to

        edit(run / file, change)

    return attack


def with_code(kind: str, text: str, *, named: str | None = None, copy: bool = True, hashed: bool = True) -> Any:
    """Return an attack that turns a run of a built-in into one of the sender's own code."""

    def attack(run: Path) -> None:
        from icecore.user_code import hash_of

        outside = run.parents[2] / "outside.py"
        outside.write_text(text)
        if copy:
            (run / f"{kind}.py").write_text(text)
        file = named or str(outside)
        origin = {"class": "Evil", "file": file, "source": hash_of(text) if hashed else "0" * 12}
        edit(run / "config.json", lambda config: config[kind].update(origin))

    return attack


def linked_code(run: Path) -> None:
    with_code("task", TASK)(run)
    (run / "task.py").unlink()
    (run / "task.py").symlink_to(run.parents[2] / "outside.py")


def replaced(file: str, content: bytes) -> Callable[[Path], None]:
    def attack(folder: Path) -> None:
        (folder / file).write_bytes(content)

    return attack


def linked(file: str, target: str) -> Callable[[Path], None]:
    def attack(folder: Path) -> None:
        (folder / file).unlink(missing_ok=True)
        (folder / file).symlink_to(target)

    return attack


def piped(file: str) -> Callable[[Path], None]:
    def attack(folder: Path) -> None:
        (folder / file).unlink(missing_ok=True)
        os.mkfifo(folder / file)

    return attack


def endless(file: str) -> Callable[[Path], None]:
    """Return an attack with a sparse file of 64 GB."""
    return lambda folder: os.truncate(folder / file, 64 * 2**30)


def header(text: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text


def tensor(shape: list[int], end: int) -> bytes:
    return json.dumps({"token": {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}}).encode()


def zipped(folder: Path) -> None:
    with zipfile.ZipFile(folder / "train.npy", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("tokens.npy", bytes(50 * 2**20))


def array(description: str, content: bytes = b"") -> bytes:
    text = description.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def edited_tensors(pattern: str, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Callable[[Path], None]:
    """Return an attack on files of tensors and notes; their checksums are the sender's own, so they are right."""

    def attack(folder: Path) -> None:
        from icecore.store.tensors import load_tensors, save_tensors

        for file in folder.glob(pattern):
            tensors, notes = load_tensors(file)
            change(tensors, notes)
            save_tensors(file, tensors, notes)

    return attack


def widened(tensors: dict[str, Any], _notes: dict[str, Any]) -> None:
    name = min(tensors)
    tensors[name] = tensors[name].repeat(*[2] * tensors[name].dim())


def narrowed(tensors: dict[str, Any], _notes: dict[str, Any]) -> None:
    name = min(tensors)
    tensors[name] = tensors[name].flatten()[:1].clone()  # which a copy would broadcast


def retyped(tensors: dict[str, Any], _notes: dict[str, Any]) -> None:
    tensors.update({name: value.bool() for name, value in tensors.items()})


def not_finite(tensors: dict[str, Any], _notes: dict[str, Any]) -> None:
    tensors.update({name: value * float("nan") for name, value in tensors.items()})


def renamed_tensors(tensors: dict[str, Any], _notes: dict[str, Any]) -> None:
    tensors["x" + ESCAPES + MARKUP] = tensors.pop(min(tensors))


def noting(name: str, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], object]:
    return lambda _tensors, notes: notes.update({name: value})


def on_tensors(pattern: str) -> dict[str, Callable[[Path], None]]:
    changes = {"of other shapes": widened, "of one number": narrowed, "of another type": retyped}
    changes |= {"that are not finite": not_finite, "with other names": renamed_tensors}
    file = pattern.rpartition("/")[2]
    return {f"{file} {words}": edited_tensors(pattern, change) for words, change in changes.items()}


def added(file: str, content: bytes | Callable[[Path], None]) -> Callable[[Path], None]:
    """Return an attack that puts a file, or what makes one, into a folder."""

    def attack(folder: Path) -> None:
        (folder / file).parent.mkdir(exist_ok=True)
        if callable(content):
            (folder / file).touch()
            content(folder)
        else:
            (folder / file).write_bytes(content)

    return attack


def with_construction(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Return an attack on the notes of a construction."""

    def attack(folder: Path) -> None:
        from icecore.constructions import construct
        from icecore.tasks import make_task

        settings = {"max_pairs": 2, "values": 6, "vocabulary": 12}
        construct(make_task("needle", settings=settings)).save(folder / "c.safetensors")
        edited_tensors("c.safetensors", lambda _, notes: change(notes))(folder)

    return attack


def at(*keys: Any, to: Any) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for key in keys[:-1]:
            value = value[key]
        value[keys[-1]] = to

    return change


def analysis(**changes: Any) -> bytes:
    variance = {"variance": {"hidden": [{"name": ESCAPES + MARKUP, "share": 1.0}]}}
    return json.dumps({"device": ESCAPES + MARKUP, "command": MARKUP, "analyses": variance} | changes).encode()


def renamed(run: Path) -> None:
    run.rename(run.with_name(OTHER_ID))


def formula_folder(run: Path) -> None:
    run.rename(run.with_name("a$\\frac{$b$^$"))


def added_line(file: str, line: str) -> Callable[[Path], None]:
    """Return an attack that appends a line to a file of JSON lines."""

    def attack(folder: Path) -> None:
        with (folder / file).open("a") as stream:
            stream.write(line + "\n")

    return attack


def escaping_folder(run: Path) -> None:
    run.rename(run.with_name(f"a{ESCAPES}{IMAGE}b"))


def records(**changes: Any) -> Callable[[Path], None]:
    """Return an attack on every record of a folder of results."""

    def attack(folder: Path) -> None:
        lines = (folder / "runs.jsonl").read_text().splitlines()
        (folder / "runs.jsonl").write_text("".join(json.dumps(json.loads(line) | changes) + "\n" for line in lines))

    return attack


def with_body(**changes: Any) -> Callable[[Path], None]:
    """Return an attack on the config of transformers inside the config of a run."""

    def attack(run: Path) -> None:
        def change(config: Any) -> None:
            body = json.loads(config["model"]["settings"]["config"])
            config["model"]["settings"]["config"] = json.dumps(body | changes, sort_keys=True)

        edit(run / "config.json", change)

    return attack


def remote_code(folder: Path) -> None:
    (folder / "evil.py").write_text(MODEL)
    maps = {"auto_map": {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"}, "trust_remote_code": True}
    edit(folder / "config.json", lambda config: config.update(maps))


def index_to_pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    (folder.parent / "evil.bin").write_bytes(pickle.dumps(Pickled()))
    index = {"metadata": {}, "weight_map": {"model.norm.weight": "../evil.bin", "lm_head.weight": "../evil.bin"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def only_pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Pickled()))


ON_RUNS: dict[str, Callable[[Path], None]] = {
    "task.py in a run of needle": with_code("task", TASK),
    "model.py in a run of needle": with_code("model", MODEL),
    "task.py with a wrong hash": with_code("task", TASK, hashed=False),
    "code outside the run": with_code("task", TASK, copy=False),
    "code above the run": with_code("task", TASK, copy=False, named="../../../outside.py"),
    "model code outside the run": with_code("model", MODEL, copy=False, hashed=False),
    "task.py is a link": linked_code,
    "weights are a pickle": replaced("weights.safetensors", pickle.dumps(Pickled())),
    "header of 2^60 bytes": replaced("weights.safetensors", header(b"{}", 2**60)),
    "header nested deep": replaced("weights.safetensors", header(DEEP)),
    "tensor of 2^62 values": replaced("weights.safetensors", header(tensor([2**31, 2**31], 64)) + bytes(64)),
    "tensor beyond the file": replaced("weights.safetensors", header(tensor([2**38], 2**40)) + bytes(64)),
    "weights of 64 GB": endless("weights.safetensors"),
    "config of 64 GB": endless("config.json"),
    "config nested deep": replaced("config.json", DEEP),
    "result nested deep": replaced("result.json", DEEP),
    "metrics nested deep": replaced("metrics.jsonl", DEEP),
    "number of a million digits": replaced("result.json", b'{"accuracy": ' + b"9" * 1_000_000 + b"}"),
    "accuracy 7.0": set_at("result.json", "accuracy", to=[7.0, 7.0]),
    "accuracy NaN": set_at("result.json", "accuracy", to=[float("nan"), 1.0]),
    "accuracy of one seed too many": set_at("result.json", "accuracy", to=[0.5, 0.5, 0.5]),
    "seconds are a list": set_at("result.json", "seconds", to=[]),
    "steps are a text": set_at("result.json", "steps", to="many"),
    "baselines are a list": set_at("result.json", "baselines", to=[1]),
    "escapes in the device": set_at("result.json", "device", to=ESCAPES + MARKUP),
    "escapes in the commit": set_at("result.json", "commit", to=ESCAPES + MARKUP),
    "escapes in the task": set_at("config.json", "task", "settings", ESCAPES + MARKUP, to=1),
    "escapes in the model's name": set_at("config.json", "model", "name", to=ESCAPES + MARKUP),
    "escapes in the folder's name": escaping_folder,
    "width of a million": set_at("config.json", "model", "settings", "width", to=2**20),
    "test set of 10^12 items": set_at("config.json", "task", "settings", "test_size", to=10**12),
    "positions of 10^12": set_at("config.json", "positions", to=10**12),
    "ten million seeds": set_at("config.json", "seeds", to=list(range(10**7))),
    "seeds are texts": set_at("config.json", "seeds", to=["../../x", ESCAPES]),
    "task's name leaves the folder": set_at("config.json", "task", "name", to="../../../x"),
    "another run's id": renamed,
    "loop of links": linked("config.json", "config.json"),
    "weights link to an endless device": linked("weights.safetensors", "/dev/zero"),
    "config links to an endless device": linked("config.json", "/dev/zero"),
    "metrics link to an endless device": linked("metrics.jsonl", "/dev/zero"),
    **{f"{name} is a pipe": piped(name) for name in RUN_FILES},
    **on_tensors("weights.safetensors"),
    "notes of another type": edited_tensors("weights.safetensors", noting("body_sha256", [MARKUP, None])),
    "notes without digests": edited_tensors("weights.safetensors", noting("body_sha256", 7)),
    "metrics with a number of 400 digits": added_line(
        "metrics.jsonl", '{"step": 41, "loss": [1' + "0" * 400 + ", 1.0]}"
    ),
    "metrics with a step of 400 digits": added_line(
        "metrics.jsonl", '{"step": 1' + "0" * 400 + ', "loss": [1.0, 1.0]}'
    ),
    "metrics with strange numbers": added_line(
        "metrics.jsonl", '{"step": -5, "loss": [1e308, -1e308], "x": [NaN, []]}'
    ),
    "metrics with 10,000 names": added_line(
        "metrics.jsonl", json.dumps({"step": 41, **{f"x{number}": [1.0, 2.0] for number in range(10_000)}})
    ),
    "metrics with markup": added_line("metrics.jsonl", json.dumps({"step": 41, MARKUP + ESCAPES: [1.0, 2.0]})),
    "loss with 400 digits": set_at("result.json", "loss", to=[10**400, 1.0]),
    "seconds with 400 digits": set_at("result.json", "seconds", to=10**400),
    "formula in the folder's name": formula_folder,
}
ON_TEXTS: dict[str, Callable[[Path], None]] = {
    "tokens are a pickle": replaced(
        "train.npy", array("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", pickle.dumps(Pickled()))
    ),
    "tokens of 10^15 values": replaced(
        "train.npy", array("{'descr': '<u2', 'fortran_order': False, 'shape': (1000000000000000,), }")
    ),
    "tokens are a zip bomb": zipped,
    "code in the tokens' header": replaced("train.npy", array("__import__('pathlib').Path('PWNED').touch()")),
    "manifest nested deep": replaced("manifest.json", DEEP),
    "escapes in the corpus": set_at("manifest.json", "corpus", to=ESCAPES + MARKUP),
    "vocabulary of 10^12": set_at("manifest.json", "vocabulary", to=10**12),
    "end token beyond the vocabulary": set_at("manifest.json", "end_token", to=10**9),
    "tokenizer nested deep": replaced("tokenizer.json", DEEP),
    **{f"{name} is a pipe": piped(name) for name in TEXT_FILES},
    **{f"{name} links to an endless device": linked(name, "/dev/zero") for name in TEXT_FILES},
}
ON_RECORDS: dict[str, Callable[[Path], None]] = {
    "records with accuracy 7.0": records(accuracy=7.0),
    "records with another run's id": records(run=OTHER_ID),
    "records whose id leaves the folder": records(run="../../x"),
    "records with escapes": records(device=ESCAPES + MARKUP, commit=MARKUP, setting=ESCAPES + MARKUP),
    "records without a config": records(config=None),
    "records nested deep": replaced("runs.jsonl", DEEP),
    "records of 64 GB": endless("runs.jsonl"),
    "records are a pipe": piped("runs.jsonl"),
    "records link to an endless device": linked("runs.jsonl", "/dev/zero"),
}
ON_BODY_RUNS: dict[str, Callable[[Path], None]] = {  # runs of --model hf:CONFIG
    "hf: remote code": with_body(auto_map={"AutoModelForCausalLM": "evil--x.Evil"}, trust_remote_code=True),
    "hf: kernels of the hub": with_body(attn_implementation="kernels-community/x", use_kernels=True),
    "hf: 10^8 layers": with_body(num_hidden_layers=10**8),
    "hf: 10^9 labels": with_body(num_labels=10**9),
    "hf: inner width of 10^12": with_body(intermediate_size=10**12),
    "hf: model_type is a list": with_body(model_type=["llama"]),
    "hf: escapes in the model_type": with_body(model_type=ESCAPES),
    "hf: code in the activation": with_body(hidden_act="__import__('pathlib').Path('PWNED').touch()"),
    "hf: config is a path": set_at("config.json", "model", "settings", "config", to="/dev/zero"),
    "hf: weights of elsewhere": set_at("config.json", "model", "settings", "weights", to="0123456789abcdef"),
}
ON_STARTS: dict[str, Callable[[Path], None]] = {  # runs that start from another run
    **on_tensors("start.safetensors"),
    "start is a pickle": replaced("start.safetensors", pickle.dumps(Pickled())),
    "start of 64 GB": endless("start.safetensors"),
    "start is a pipe": piped("start.safetensors"),
    "start links to an endless device": linked("start.safetensors", "/dev/zero"),
    "start of a role that is none": set_at("config.json", "start", "rescaled", to=ESCAPES + MARKUP),
    "start takes another half": set_at("config.json", "start", "take", to="../../x"),
    "start of a number": set_at("config.json", "start", to=7),
    "start without a place": set_at("config.json", "start", "where", to=None),
    "start with other digests": set_at("config.json", "start", "where", "sha256", to=[MARKUP, ESCAPES]),
    "start shifted by 10^30": set_at("config.json", "start", "shift", to=10**30),
    "phases of ten million": set_at("config.json", "phases", to=[{"trainable": "all"}] * 10**6),
    "rank of 10^12": set_at("config.json", "rank", to={"rank": 10**12}),
}
ON_CHECKPOINTS: dict[str, Callable[[Path], None]] = {  # runs that were begun
    **on_tensors("checkpoint.safetensors"),
    "checkpoint of step 10^30": edited_tensors("checkpoint.safetensors", noting("step", 10**30)),
    "checkpoint of step -1": edited_tensors("checkpoint.safetensors", noting("step", -1)),
    "checkpoint of many seconds": edited_tensors("checkpoint.safetensors", noting("seconds", "x")),
    "checkpoint of 10^400 seconds": edited_tensors("checkpoint.safetensors", noting("seconds", 10**400)),
    "checkpoint is a pickle": replaced("checkpoint.safetensors", pickle.dumps(Pickled())),
    "checkpoint is a pipe": piped("checkpoint.safetensors"),
    "checkpoint links to an endless device": linked("checkpoint.safetensors", "/dev/zero"),
    "checkpoint of 64 GB": endless("checkpoint.safetensors"),
    "snapshots lead elsewhere": linked("snapshots", ".."),
    "metrics lead elsewhere": linked("metrics.jsonl", "../../../outside.py"),
}
FIRST = "00000003-seed0.safetensors"
ON_SNAPSHOTS: dict[str, Callable[[Path], None]] = {
    **on_tensors("snapshots/*.safetensors"),
    "snapshots are pickles": replaced(f"snapshots/{FIRST}", pickle.dumps(Pickled())),
    "a snapshot of 64 GB": endless(f"snapshots/{FIRST}"),
    "a snapshot is a pipe": piped(f"snapshots/{FIRST}"),
    "a snapshot links to an endless device": linked(f"snapshots/{FIRST}", "/dev/zero"),
    "a snapshot of step 10^30": added(f"snapshots/{10**30}-seed0.safetensors", b""),
    "a snapshot of a step in other digits": added("snapshots/0000000\u00b2-seed\u00b2.safetensors", b""),
    "snapshots link to themselves": linked("snapshots/x", "."),
}
ON_FILES: dict[str, Callable[[Path], None]] = {  # files in a folder of records
    "analysis with markup": added("analyses/a.json", analysis()),
    "analysis with a name of markup": added(f"analyses/a{MARKUP.replace('/', '')}.json", analysis()),
    "analysis of lists": added("analyses/a.json", analysis(analyses=[1])),
    "analysis of strange values": added("analyses/a.json", analysis(analyses={"own": {MARKUP: [10**400, None]}})),
    "analysis nested deep": added("analyses/a.json", DEEP),
    "analysis is a pipe": added("analyses/a.json", piped("analyses/a.json")),
    "analysis links to an endless device": added("analyses/a.json", linked("analyses/a.json", "/dev/zero")),
    "analysis of 64 GB": added("analyses/a.json", endless("analyses/a.json")),
    "playground of nothing": added("playground/p.json", b'{"kind": "playground", "version": 1}'),
    "playground with markup": added(
        "playground/p.json",
        json.dumps({"kind": "playground", "version": 1, "task": {"name": MARKUP + ESCAPES}}).encode(),
    ),
    "playground is a pipe": added("playground/p.json", piped("playground/p.json")),
    "playground nested deep": added("playground/p.json", DEEP),
    "bench with markup": added("bench/b.json", json.dumps({"device": MARKUP + ESCAPES, "rows": [{}]}).encode()),
    "bench of a number": added("bench/b.json", b"7"),
    "bench is a pipe": added("bench/b.json", piped("bench/b.json")),
    "construction of 10^12 test items": with_construction(at("task", "settings", "test_size", to=10**12)),
    "construction of 10^12 values": with_construction(at("task", "settings", "values", to=10**12)),
    "construction of width 2^40": with_construction(at("model", "width", to=2**40)),
    "construction with 10^12 copies": with_construction(at("options", to={"copies": 10**12})),
    "construction with escapes": with_construction(at("construction", to=ESCAPES + MARKUP)),
    "construction with odd settings": with_construction(at("task", "settings", ESCAPES + MARKUP, to=1)),
    "construction of a list": with_construction(at("task", to=[1])),
    "construction is a pickle": added("c.safetensors", pickle.dumps(Pickled())),
    "construction is a pipe": added("c.safetensors", piped("c.safetensors")),
    "construction of 64 GB": added("c.safetensors", endless("c.safetensors")),
}
ON_BODY_FOLDERS: dict[str, Callable[[Path], None]] = {  # what --model hf:FOLDER names
    "hf: remote code in the folder": remote_code,
    "hf: index to a pickle": index_to_pickle,
    "hf: weights as a pickle": only_pickled,
    "hf: pickle named safetensors": replaced("model.safetensors", pickle.dumps(Pickled())),
    "hf: adapter of another model": replaced("adapter_config.json", b'{"base_model_name_or_path": "a/b"}'),
    "hf: config.json nested deep": replaced("config.json", DEEP),
    "hf: config.json of 64 GB": endless("config.json"),
    "hf: weights link to an endless device": linked("x.safetensors", "/dev/zero"),
    "hf: weights are a pipe": piped("x.safetensors"),
    "hf: config.json is a pipe": piped("config.json"),
}
