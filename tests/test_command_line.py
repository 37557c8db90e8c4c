"""The commands, from start to end, with bad input: one line, exit code 2, nothing half-written."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icecore.bench.language import RandomText
from icecore.cli import app, main
from icecore.store.provenance import without_folder
from icecore.tasks import TASKS

EXAMPLE = Path(__file__).parents[1] / "examples" / "reversal.py"


def files_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_names_every_command(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    names = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    assert len(names) >= 16
    assert all(f"│ {name} " in out for name in names)
    assert run(capsys)[0] == 0


def test_help_is_readable_at_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run(capsys, "--help")
    names = {command.name for command in app.registered_commands if command.name}
    rows = [line for line in out.splitlines() if line.startswith("│ ") and line[2] not in "- "]
    assert {row.split()[1] for row in rows} == names | {"results"}
    assert all(row[:-2].rstrip().endswith((".", ").")) for row in rows)  # each summary is one line
    for name in (*names, "results merge"):
        code, out, _ = run(capsys, *name.split(), "--help")
        assert code == 0
        assert max(map(len, out.splitlines())) <= 80
        assert f"icecore {name}" in out.partition("Examples")[2], name  # at least one example
        assert not any(text in out for text in ("<bool>", "list[", " range>", "...]...", "[[")), name
    for command in app.registered_commands:
        assert command.callback is not None
        examples = re.findall(r"^ +(icecore .*)", command.callback.__doc__ or "", re.MULTILINE)
        assert [example for example in examples if len(example) > 78] == []  # not broken: to be copied


@pytest.mark.parametrize("task", [None, "needle", "decimal-addition", "k-hop"])
def test_tasks_are_readable_at_80_columns(capsys, monkeypatch, task):
    _, wide, _ = run(capsys, "tasks", *([task] if task else []))
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(capsys, "tasks", *([task] if task else []))
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert set(re.findall(r"[\w-]{2,}", wide)) <= set(re.findall(r"[\w-]{2,}", out))  # nothing is cut


def test_a_problem_of_a_task_is_said_once(capsys, tmp_path):
    source = EXAMPLE.read_text().replace("length: int = 6", "length: int = 2")
    (tmp_path / "few.py").write_text(source)
    code, out, err = run(capsys, "tasks", "--check", f"{tmp_path}/few.py:Reversal")
    assert code == 2
    assert out.count("too few different items") == 1
    assert out.count(" NO ") == out.count("as above") + 1 > 1
    assert "more)" not in err


def test_tasks_as_json(capsys):
    code, out, _ = run(capsys, "tasks", "--json")
    assert code == 0
    tasks = {task["name"]: task for task in json.loads(out.splitlines()[-1])["tasks"]}
    assert len(tasks) == len(TASKS)
    needle = tasks["needle"]
    assert needle["presets"] == ["released", "unfiltered", "reconstructed", "paper"]
    assert (needle["vocab_size"], needle["max_length"], needle["version"]) == (256, 61, 1)
    assert needle["baselines"]["most_frequent_value"] == 0.17675


def test_tasks_as_a_table_and_one_by_one(capsys):
    _, out, _ = run(capsys, "tasks")
    assert "equal counts .927" in out
    _, out, _ = run(capsys, "tasks", "needle")
    assert "--max-pairs" in out
    assert "128 1 129 2" in out


@pytest.mark.parametrize(
    ("task", "count"),
    [
        ("modular-addition", 1981),
        ("needle", 4000),
        ("decimal-addition", 4000),
        ("parentheses", 4000),
        ("imitation", 4000),
    ],
)
def test_data_writes_the_test_items(capsys, tmp_path, task, count):
    out = tmp_path / "items.jsonl"
    code, text, _ = run(capsys, "data", task, "--preset", "released", "--split", "test", "--out", out)
    lines = out.read_text().splitlines()
    assert code == 0
    assert f"{count:,} test items" in text
    assert len(lines) == count
    assert set(json.loads(lines[0])) == {"prompt", "answer"}
    assert files_in(tmp_path) == ["items.jsonl"]


def test_data_writes_training_items_to_standard_output(capsys):
    _, out, _ = run(capsys, "data", "needle", "--split", "train", "--count", "5", "--max-pairs", "2")
    items = [json.loads(line) for line in out.splitlines()]
    assert len(items) == 5
    assert all(len(item["prompt"]) <= 5 for item in items)
    again = run(capsys, "data", "needle", "--split", "train", "--count", "5", "--max-pairs=2")[1]
    assert again == out
    other = run(capsys, "data", "needle", "--split", "train", "--count", "5", "--max-pairs=2", "--seed", "1")[1]
    assert other != out


def test_data_of_imitation_has_the_targets_most_likely_token(capsys):
    for split in ("test", "train"):
        _, out, _ = run(capsys, "data", "imitation", "--split", split, "--count", "3", "--target-width", "4")
        items = [json.loads(line) for line in out.splitlines()]
        assert [(len(item["prompt"]), len(item["answer"])) for item in items] == [(40, 1)] * 3


def test_data_writes_the_memorization_table_in_generation_order(capsys, tmp_path):
    out = tmp_path / "table.jsonl"
    run(capsys, "data", "memorization", "--split", "train", "--out", out, "--keys", "16")
    items = [json.loads(line) for line in out.read_text().splitlines()]
    assert [item["prompt"] for item in items] == [[raw % 16, 16 + raw // 16] for raw in range(256)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("data", "nedle"), "did you mean 'needle'?"),
        (("data", "needle", "--preset", "papr"), "did you mean 'paper'?"),
        (("data", "needle", "--presset", "paper"), "did you mean 'preset'?"),
        (("data", "needle", "--max-pair", "3"), "did you mean 'max-pairs'?"),
        (("data", "modular-addition", "--modulus", "1"), "modulus must be 2 to 2,048, 4 million pairs, got 1"),
        (("data", "modular-addition", "--modulus", "many"), "modulus must be a whole number, got 'many'"),
        (("data", "modular-addition", "--train-fraction", "1"), "train_fraction must leave items"),
        (("data", "needle", "--max-pairs", "65"), "room for 64 markers"),
        (("data", "needle", "--query", "tokn"), "known: own-token, marker"),
        (("data", "decimal-addition", "--digits", "0"), "digits must be 1 to 1,000, got 0"),
        (("data", "parentheses", "--double-flips", "maybe"), "must be true or false, got 'maybe'"),
        (("data", "needle", "--count", "-1"), "--count must be at least 1, got -1"),
        (("data", "needle", "--count", "many"), "--count"),
        (("data", "needle", "--split", "dev"), "dev"),
        (("data", "needle", "stray"), "unexpected argument 'stray'"),
        (("data", "needle", "--max-pairs"), "--max-pairs needs a value"),
        (("data", "memorization", "--split", "test"), "use --split train"),
        (("data", "language"), "give --folder FOLDER (make one: icecore prepare stories)"),
        (("data", "parentheses", "--max-pairs", "1", "--split", "train"), "too few different items"),
        (("data", "needle", "--out", "/dev/null/x"), "cannot write /dev/null/x"),
        (("data", "needle", "--out", "/"), "it is a folder"),
        (("tasks", "--check", "missing.py:Task"), "there is no file missing.py"),
        (("tasks", "--check", f"{EXAMPLE}:Reverse"), "did you mean 'Reversal'?"),
        (("tasks", "nope"), "unknown task 'nope'"),
        (("bench", "--what", "nothing"), "nothing"),
        (("bench", "--task", "nedle"), "did you mean 'needle'?"),
        (("bench", "--precision", "fp23"), "did you mean 'fp32'?"),
        (("bench", "--precision", "bf16", "--device", "cpu"), "--precision bf16 needs a GPU"),
        (("bench", "--what", "precision", "--device", "cpu"), "which needs a GPU"),
        (("bench", "--width", "6", "--device", "cpu"), "width must be a multiple of heads"),
        (("nonsense",), "nonsense"),
        (("data",), "TASK"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, arguments, message):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message.lower() in err.lower()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def broken(:", "does not import (SyntaxError"),
        ("import no_such_module", "does not import (ModuleNotFoundError"),
        ("class Task: pass", "must be a subclass of icecore.tasks.Task"),
        ("x = 1", "unknown class"),
    ],
)
def test_a_file_without_a_task_says_why(capsys, tmp_path, source, message):
    path = tmp_path / "mine.py"
    path.write_text(source)
    code, _, err = run(capsys, "tasks", "--check", f"{path}:Task")
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_choices_are_checked_where_nothing_else_checks_types():
    """In a process of its own: here the tests' type checker would be first."""
    program = """
from icecore.errors import InputError
from icecore.store.provenance import without_folder
from icecore.models import Transformer
from icecore.tasks import DecimalAddition, Imitation, Needle
from icecore.training import TrainingConfig
wrong = [(Transformer, "init", "mached"), (Transformer, "attention", "linear"), (Needle, "query", "own"),
         (DecimalAddition, "scored", "all"), (Imitation, "target_init", "test"), (TrainingConfig, "schedule", "linear")]
for make, name, value in wrong:
    try:
        make(**{name: value})
    except InputError as error:
        print(error)
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "unknown value of init 'mached': did you mean 'matched'?" in found
    assert found.count("unknown value of ") == 6


def test_a_file_that_vanishes_is_named(monkeypatch, capsys):
    def vanish(*_arguments: object, **_options: object) -> None:
        Path("runs/that/were/here").stat()

    monkeypatch.setattr("icecore.cli.app", vanish)
    assert main(["tasks"]) == 2
    assert "error: runs/that/were/here is gone (No such file or directory)" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_one_line():
    command = [sys.executable, "-m", "icecore", "data", "needle"]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 2
    assert ended.stderr == (
        "error: cannot write the output: No space left on device; free disk space, or write elsewhere\n"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"reversal"', '"../reversal"'), "only letters, digits, - and _"),
        (("(count, self.length)", "(count, self.length + 1)"), "batches have the right shapes"),
        (("    letters: int = 8", "    letters: int"), "can be made with its defaults"),
    ],
)
def test_a_task_that_breaks_the_contract_is_not_trained(tmp_path, capsys, change, message):
    (tmp_path / "own.py").write_text(EXAMPLE.read_text().replace(*change))
    code, _, error = run(capsys, "train", f"{tmp_path / 'own.py'}:Reversal", "--out", tmp_path / "runs")
    assert code == 2
    assert "breaks the contract" in error
    assert message in error
    assert not (tmp_path / "runs").exists()


def test_check_of_the_example(capsys):
    code, out, _ = run(capsys, "tasks", "--check", f"{EXAMPLE}:Reversal")
    assert code == 0
    assert "meets the contract" in out
    code, out, _ = run(capsys, "tasks", "--check", str(EXAMPLE), "--json")
    assert json.loads(out)["ok"] is True


def test_a_failed_check_exits_2_and_names_the_problem(capsys, tmp_path):
    broken = EXAMPLE.read_text().replace("1 / self.letters", "float(self.letters)")
    (tmp_path / "mine.py").write_text(broken)
    code, out, err = run(capsys, "tasks", "--check", f"{tmp_path}/mine.py:Reversal")
    assert code == 2
    assert " NO  baselines are in [0, 1]" in out
    assert "must be in [0, 1], is 8.0" in err


def test_a_users_task_takes_the_same_commands(capsys):
    _, out, _ = run(capsys, "data", f"{EXAMPLE}:Reversal", "--length", "3", "--count", "2")
    item = json.loads(out.splitlines()[0])
    assert item["prompt"][:3] == item["answer"][::-1]
    _, out, _ = run(capsys, "tasks", f"{EXAMPLE}:Reversal")
    assert "--letters" in out


def test_an_earlier_file_survives_a_failed_write(capsys, tmp_path):
    out = tmp_path / "items.jsonl"
    out.write_text("precious\n")
    code, _, _ = run(capsys, "data", "language", "--out", out)
    assert code == 2
    assert out.read_text() == "precious\n"
    assert files_in(tmp_path) == ["items.jsonl"]


def test_ctrl_c_exits_130_and_leaves_nothing(tmp_path):
    out = tmp_path / "items.jsonl"
    command = [sys.executable, "-m", "icecore", "data", "needle", "--split", "train"]
    process = subprocess.Popen(
        [*command, "--count", "100000000", "--out", str(out)],
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    )
    deadline = time.monotonic() + 60
    while not files_in(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    # Hit while a library makes a class by exec, CPython dies of the signal in the end: to a shell that is 130 as well.
    assert process.returncode in (130, -signal.SIGINT)
    assert err == b"interrupted\n"
    assert files_in(tmp_path) == []


def test_bench_data_as_json(capsys, monkeypatch):
    monkeypatch.setattr("icecore.bench.data.BLOCK", 64)
    monkeypatch.setattr("icecore.bench.data.PLAIN_BLOCK", 8)
    code, out, _ = run(capsys, "bench", "--what", "data", "--json")
    rows = json.loads(out.splitlines()[-1])["rows"]
    assert code == 0
    assert [row["task"] for row in rows] == ["needle", "decimal-addition", "parentheses"]
    for row in rows:
        assert row["ratio"] == pytest.approx(row["items_per_s"] / row["python_items_per_s"])


def test_bench_language_as_json(capsys, monkeypatch):
    monkeypatch.setattr("icecore.bench.language.RandomText", lambda **_: RandomText(80, 50))
    monkeypatch.setattr("icecore.bench.language.LARGE", {"cpu": 64})
    flags = ("--what", "language", "--width", "16", "--layers", "1", "--seconds", "0", "--device", "cpu")
    code, out, _ = run(capsys, "bench", *flags, "--json")
    assert code == 0
    random, normal = json.loads(out.splitlines()[-1])["rows"]
    assert (random["trainable"], normal["trainable"], random["tokens"]) == ("embeddings", "all", 20 * 80)
    # 12 products of width by width in the body and 50 outputs, forward and backward, of Normal the weights' too;
    # the sum of each bias's gradient is a product only on a GPU. Attention is counted by hand.
    attention = 7 * 20 * 16 * 80**2
    body, unembedding = 2 * 1600 * 12 * 16 * 16, 3 * 2 * 1600 * 16 * 50
    assert random["gflop"] == pytest.approx((2 * body + unembedding + attention) / 1e9)
    assert normal["gflop"] == pytest.approx((3 * body + unembedding + attention) / 1e9)
    assert min(random[name] for name in ("ms_per_step", "lower_bound_ms", "reference_ms", "huggingface_ms")) > 0


def test_bench_train_as_json_and_kept(capsys, tmp_path):
    flags = ("--task", "modular-addition", "--width", "8", "--seconds", "0", "--device", "cpu")
    code, out, _ = run(capsys, "bench", *flags, "--out", str(tmp_path / "bench.json"), "--json")
    assert code == 0
    printed = json.loads(out.splitlines()[-1])
    (row,) = printed["rows"]
    assert set(row) >= {
        *("task", "model", "width", "trainable", "seeds", "ms_per_seed_step", "peak_gb"),
        *("lower_bound_ms", "reference_ms", "huggingface_ms"),
    }
    assert (row["task"], row["width"], row["seeds"]) == ("modular-addition", 8, 1)
    assert min(row[name] for name in ("lower_bound_ms", "ms_per_seed_step", "reference_ms", "huggingface_ms")) > 0
    # Forward, and backward to the embeddings: q, k, v on 398 rows; on 4,000 pairs the rest of layer 1 and all of
    # layer 2 but keys and values, which run on 4,199 nodes; then the unembedding and its two gradients, and
    # attention, with two queries in layer 1 and one in layer 2: two products forward and four backward.
    by_hand = 2 * 2 * 64 * (3 * 398 + 9 * 4199 + 2 * 4199 + 10 * 4000) + 3 * 2 * 4000 * 8 * 199
    by_hand += 6 * 2 * 4000 * 8 * 2 * (2 + 1)
    assert row["gflop"] == pytest.approx(by_hand / 1e9)
    kept = json.loads((tmp_path / "bench.json").read_text())
    assert kept["rows"] == printed["rows"]
    assert {"commit", "command", "device", "torch"} <= set(kept)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["data", "--task", "needle"], "--task does not apply to --what data"),
        (["data", "--out", "a.json"], "--out does not apply to --what data"),
        (["precision", "--width", "16"], "--width does not apply to --what precision"),
        (["train", "--layers", "3"], "--layers does not apply to --what train"),
    ],
)
def test_a_bench_takes_no_flag_that_it_does_not_use(capsys, flags, message):
    assert main(["bench", "--what", *flags]) == 2
    assert message in capsys.readouterr().err


def test_recorded_commands_have_no_absolute_paths():
    given = ["--out=/home/me/runs", "/home/me/mine.py:Task", "--out", "runs/a", "--only=needle, lr=0.005", "a=/b/c"]
    assert [*map(without_folder, given)] == ["--out=runs", "mine.py:Task", "--out", "runs/a", given[4], given[5]]
