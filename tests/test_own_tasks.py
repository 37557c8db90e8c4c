"""Runs of a user's task: another text of its file is another task, and a run has its own copy of it."""

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from small_runs import MODEL, SHORT, Stop, stop_after

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.seeding import make_generator
from icecore.tasks import TASKS, find_task, make_task
from icecore.training import config_of
from icecore.user_code import hash_of

EXAMPLE = Path(__file__).parents[1] / "examples" / "reversal.py"
SMALL = ["--width", "16", "--length", "6", "--steps", "4", "--batch", "8", "--warmup-steps", "1", "--device", "cpu"]


@pytest.fixture
def trained(tmp_path, monkeypatch, capsys):
    """A task of one's own in the current folder, a function that trains on it, and the folder of runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(EXAMPLE.read_text())

    def train(*flags: str) -> Path:
        assert main(["train", "mine.py:Reversal", *SMALL, *flags, "--out", "runs", "--json"]) == 0
        return Path(json.loads(capsys.readouterr().out.splitlines()[-1])["run"])

    return train


def test_an_edited_task_is_trained_again(trained, tmp_path):
    first = trained()
    assert trained() == first, "the same text is the same run"
    file = tmp_path / "mine.py"
    file.write_text(file.read_text().replace("letters: int = 8", "letters: int = 9"))
    second = trained()
    file.write_text(file.read_text() + "# with other baselines, say\n")
    assert len({first, second, trained()}) == 3


def test_a_text_is_called_by_twelve_digits_of_its_sha_256():
    """Runs that are kept would not be found under other names."""
    assert hash_of("") == "e3b0c44298fc"


def test_a_run_is_loaded_anywhere(trained, tmp_path, monkeypatch):
    run = trained().resolve()
    (tmp_path / "mine.py").write_text("not Python at all")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert main(["evaluate", str(run), "--json"]) == 0
    assert (run / "task.py").read_text() == EXAMPLE.read_text()


def test_a_kept_run_has_the_task_too(trained):
    run = str(trained("--seeds", "2"))
    assert main(["extract", run, "--seeds", "1", "--out", "kept"]) == 0
    (kept,) = Path("kept/reversal").iterdir()
    Path("mine.py").unlink()
    assert main(["evaluate", str(kept)]) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"reversal"', '"needle"'), "'needle' is a task of icecore"),
        (("    letters: int = 8", "    width: int = 3\n    letters: int = 8"), "train has a flag --width"),
    ],
)
def test_names_that_are_taken_are_refused(tmp_path, capsys, change, message):
    file = tmp_path / "mine.py"
    file.write_text(EXAMPLE.read_text().replace(*change))
    assert main(["train", f"{file}:Reversal", *SMALL, "--out", str(tmp_path / "runs")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    assert main(["tasks", "--check", f"{file}:Reversal"]) == 2
    assert message in capsys.readouterr().err


def test_a_task_that_fails_is_one_line(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(EXAMPLE.read_text().replace("1 / self.letters", "1 / 0"))
    assert main(["tasks", f"{tmp_path}/mine.py:Reversal"]) == 2
    assert "Reversal fails (ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("late", "message"),
    [
        ("raise KeyError('no such letter')", "KeyError: 'no such letter', in mine.py line "),
        ("batch.tokens[0, 0] = 99", "tokens from 0 to 99, must be 0..8"),
        ("batch.scored[1] = False", "items with no scored position (item 1)"),
    ],
)
def test_a_task_that_fails_in_mid_training_is_one_line(tmp_path, monkeypatch, capsys, late, message):
    """Blocks of a stream are larger than what the check draws, so that this is first met in training."""
    monkeypatch.chdir(tmp_path)
    text = EXAMPLE.read_text().replace("return Batch(", "batch = Batch(")
    text = text.replace(
        "expand(count, -1))", f"repeat(count, 1))\n        if count > 30_000: {late}\n        return batch"
    )
    (tmp_path / "mine.py").write_text(text)
    assert main(["tasks", "--check", "mine.py:Reversal"]) == 0
    assert main(["train", "mine.py:Reversal", *SMALL, "--out", "runs"]) == 2
    error = capsys.readouterr().err
    assert "reversal breaks its contract in training: " in error
    assert message in error


def test_accuracies_that_fail_only_on_wrong_answers_are_one_line(tmp_path, capsys):
    file = tmp_path / "late.py"
    method = (
        "    def accuracies(self, predictions, batch):\n        assert (predictions == batch.targets).all(), 'wrong'\n"
    )
    file.write_text(f"{EXAMPLE.read_text()}\n{method}        return super().accuracies(predictions, batch)\n")
    assert main(["train", f"{file}:Reversal", *SMALL, "--out", str(tmp_path)]) == 2
    assert (
        "accuracies of reversal failed (AssertionError: wrong, in late.py line 43); fix it" in capsys.readouterr().err
    )


def test_a_task_that_needs_too_much_memory_in_mid_training_is_told_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = EXAMPLE.read_text().replace("device = generator.device", "device = generator.device\n        HERE")
    (tmp_path / "mine.py").write_text(text.replace("HERE", "torch.empty(2**50 if count > 30_000 else 1)"))
    assert main(["train", "mine.py:Reversal", *SMALL, "--out", "runs"]) == 2
    error = capsys.readouterr().err
    assert "out of memory" in error
    assert "breaks its contract" not in error


def test_a_run_within_its_warm_up_is_warned_of(tmp_path, capsys):
    flags = ["--warmup-steps", "400", "--out", str(tmp_path)]
    assert main(["train", f"{EXAMPLE}:Reversal", *SMALL, *flags]) == 0
    assert "warning: all 4 steps are within the warm-up of 400" in capsys.readouterr().err


def test_another_text_in_the_copys_place_is_refused(trained, capsys):
    run = trained()
    (run / "task.py").write_text(EXAMPLE.read_text() + "# changed\n")
    assert main(["evaluate", str(run)]) == 2
    assert "is not the task of the run: the file has changed" in capsys.readouterr().err
    (run / "task.py").unlink()
    assert main(["evaluate", str(run)]) == 2, "the path in the config may lead anywhere, and is not followed"
    assert "task.py, the task of the run; put it back there" in capsys.readouterr().err
    (run / "task.py").write_text(EXAMPLE.read_text())
    assert main(["evaluate", str(run)]) == 0


def test_a_run_is_the_same_however_its_file_is_spelt(trained, tmp_path, capsys):
    first = trained()
    for spelt in ("./mine.py:Reversal", "mine.py", str(tmp_path / "mine.py")):
        assert main(["train", spelt, *SMALL, "--out", "runs", "--json"]) == 0
        assert Path(json.loads(capsys.readouterr().out.splitlines()[-1])["run"]) == first, spelt


@pytest.mark.parametrize("is_on_the_path", [False, True])
@pytest.mark.parametrize("line", ["from helper import letters", "import helper", "import folder.helper as helper"])
def test_a_task_is_one_file(tmp_path, monkeypatch, capsys, line, is_on_the_path):
    (tmp_path / "helper.py").write_text("letters = 8\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "helper.py").write_text("letters = 8\n")
    if is_on_the_path:
        monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "mine.py"
    file.write_text(f"import math\n{line}\n" + EXAMPLE.read_text())
    assert main(["tasks", "--check", f"{file}:Reversal"]) == 2
    assert re.search("mine.py imports (helper|folder) from its folder, which runs do not save", capsys.readouterr().err)


def test_a_package_may_have_a_namesake_beside_the_task(tmp_path):
    (tmp_path / "torch").mkdir()
    file = tmp_path / "mine.py"
    file.write_text(EXAMPLE.read_text())
    assert main(["tasks", "--check", f"{file}:Reversal"]) == 0


XOR = """
import random
from dataclasses import dataclass
from typing import ClassVar
import torch
from icecore.tasks import Batch, Item
from icecore.tasks.finite import PairTask, encode_pairs

@dataclass(frozen=True)
class Xor(PairTask):
    name: ClassVar[str] = "xor"
    vocab_size: ClassVar[int] = 16

    def splits(self):
        items = [Item((a, b), (a ^ b,)) for a in range(16) for b in range(16)]
        random.Random(0).shuffle(items)
        return items[:200], items[200:]

    def baselines(self):
        return {"chance": 1 / 16}
"""


BAD_LATER = """
    def train_set(self):
        return Batch.concatenate([super().train_set(), encode_pairs([Item((0, 0), (16,))])])

    def draw(self, count, generator):
        return super().train_set()[torch.randint(200, (count,), generator=generator)]

"""


def test_a_small_finite_task_is_checked_and_trained(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(XOR)
    assert main(["tasks", "--check", f"{file}:Xor"]) == 0
    flags = ["--width", "16", "--steps", "4", "--batch", "100", "--warmup-steps", "1", "--device", "cpu"]
    assert main(["train", f"{file}:Xor", *flags, "--out", str(tmp_path)]) == 0
    assert "train accuracy" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("    def splits", BAD_LATER + "    def splits"), "train_set gives targets from 0 to 16, must be 0..15"),
        (
            ("return items[:200]", "torch.ones(2) @ torch.ones(3)\n        return 0"),
            ", in mine.py line ",
        ),
    ],
)
def test_a_training_set_keeps_the_contract_too(tmp_path, capsys, change, message):
    file = tmp_path / "mine.py"
    file.write_text(XOR.replace(*change))
    for command in (["tasks", "--check"], ["train"]):
        assert main([*command, f"{file}:Xor", *(["--out", str(tmp_path)] if command == ["train"] else [])]) == 2
        assert message in capsys.readouterr().err


def test_a_subclass_in_python_is_not_what_the_file_holds(tmp_path):
    class Easier(find_task(f"{EXAMPLE}:Reversal")):
        pass

    assert Easier.source_text is None
    with pytest.raises(InputError, match=r"make_task\('FILE.py:Easier'\)"):
        ice.train(cast(Any, Easier)(), MODEL, out=tmp_path, **SHORT)


def test_settings_that_are_tuples_are_kept_and_gone_on_with(tmp_path):
    file = tmp_path / "tuples.py"
    file.write_text(
        EXAMPLE.read_text().replace("    letters: int", "    dims: tuple[int, ...] = (7, 5)\n    letters: int")
    )
    task = make_task(f"{file}:Reversal")
    with pytest.raises(Stop):
        ice.train(task, MODEL, out=tmp_path, log_every=1, checkpoint_every=2, on_progress=stop_after(5), **SHORT)
    runs = ice.train(task, MODEL, out=tmp_path, resume=True, **SHORT)
    assert runs.path is not None
    again = ice.load(runs.path, "cpu").config.task
    assert vars(again) == vars(task)
    assert hash(again) == hash(task), "as caches need it"


def test_a_stream_leaves_alone_what_a_task_keeps():
    reversal = make_task(f"{EXAMPLE}:Reversal", settings={"length": "5"})
    pool = reversal.draw(40_000, make_generator(0, "pool"))
    before = [part.clone() for part in pool.parts()]

    class Pooled(type(reversal)):
        def draw(self, count, generator):
            begin = int(torch.randint(len(pool) - count, (1,), generator=generator))
            return pool[begin : begin + count]

    task = cast(Any, Pooled)(**vars(reversal))
    held_out = set(task.test_items())
    assert held_out & set(task.items(task.draw(20_000, make_generator(1, "draws")))), "some have to be replaced"
    assert not held_out & set(task.items(task.sample(20_000, make_generator(1, "draws"))))
    assert all(torch.equal(part, kept) for part, kept in zip(pool.parts(), before, strict=True))


def test_a_registered_class_that_has_changed_is_another_task(monkeypatch):
    reversal = find_task(f"{EXAMPLE}:Reversal")
    names = []
    for text in ("1", "2"):
        other = type("Mine", (reversal,), {"name": "mine"})
        monkeypatch.setattr("icecore.training.identity.text_of", lambda _, text=text: text)
        monkeypatch.setitem(TASKS, "mine", other)
        names.append(config_of(cast(Any, other)(), MODEL).run_id)
    assert names[0] != names[1]
    assert "source" not in config_of(make_task("needle"), MODEL).as_json()["task"]


def test_a_task_in_python_is_checked_before_it_trains():
    class Unfinished(find_task(f"{EXAMPLE}:Reversal")):
        def baselines(self):
            raise NotImplementedError("later")

    def watch(_progress):
        raise AssertionError("it trains")

    with pytest.raises(InputError, match=r"Unfinished breaks the contract .*NotImplementedError: later"):
        ice.train(cast(Any, Unfinished)(), MODEL, on_progress=watch, log_every=1, **SHORT)


def test_a_task_that_ends_the_program_is_one_line(tmp_path, capsys):
    file = tmp_path / "bad.py"
    text = EXAMPLE.read_text()
    assert text.count("    def baselines(self) -> dict[str, float]:\n") == 1
    file.write_text(
        text.replace(
            "    def baselines(self) -> dict[str, float]:\n", "    def baselines(self):\n        raise SystemExit(3)\n"
        )
    )
    for command in (["tasks", f"{file}:Reversal"], ["train", f"{file}:Reversal", *SMALL]):
        assert main(command) == 2
        assert "SystemExit: 3" in capsys.readouterr().err


def test_advice_is_one_line_once_and_not_for_a_finished_run(tmp_path, capsys):
    flags = ["--length", "6", "--steps", "4", "--batch", "8", "--warmup-steps", "400", "--device", "cpu"]
    compare = ["compare", f"{EXAMPLE}:Reversal", *flags, "--widths", "16", "--seeds", "1", "--out", str(tmp_path)]
    train = ["train", f"{EXAMPLE}:Reversal", *flags, "--width", "16", "--out", str(tmp_path / "runs")]
    for command in (compare, train):
        assert main(command) == 0
        said = capsys.readouterr().err
        assert said.count("are within the warm-up") == said.count("warning: all 4 steps") == 1
        assert "Advice" not in said
        assert main(command) == 0
        assert "warm-up" not in capsys.readouterr().err
