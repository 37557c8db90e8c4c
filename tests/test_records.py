"""Records: nothing lost, damage named, and each says where it comes from."""

import errno
import fcntl
import importlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_up import record
from small_sweep import CELLS, sweep

from icecore.cli import main
from icecore.errors import InputError
from icecore.paper import claims_of, spent_on
from icecore.store import Record, Records
from icecore.training.identity import name_of


def test_a_full_disk_leaves_the_records_as_they_were(tmp_path, monkeypatch):
    records = Records(tmp_path)
    records.append([record("a")])
    before = records.path.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        records.append([record("b")])
    assert records.path.read_bytes() == before


def test_a_disk_that_fills_up_amid_a_record_leaves_no_half_line(tmp_path):
    """In a process of its own, whose files may not grow beyond a limit."""
    Records(tmp_path).append([record("a")])
    before = (tmp_path / "runs.jsonl").read_bytes()
    program = (
        "import resource, signal, sys; from pathlib import Path; from icecore.store import Records\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before) + 1000},) * 2)\n"
        f"Records(Path({str(tmp_path)!r})).append([{{'run': 'b', 'accuracy': 1.0, 'long': 'x' * 20000}}])\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "InputError: cannot write" in ended.stderr
    assert (tmp_path / "runs.jsonl").read_bytes() == before


def test_a_result_names_the_source_that_ran_not_the_one_at_its_end(tmp_path, monkeypatch):
    """A commit may be named from outside, and wrongly; the hash is of the files, taken when the command begins."""
    provenance = importlib.import_module("icecore.store.provenance")  # the package has a function of that name
    package = tmp_path / "icecore"
    (package / "store").mkdir(parents=True)
    (package / "a.py").write_text("one")
    monkeypatch.setattr(provenance, "__file__", str(package / "store" / "provenance.py"))
    monkeypatch.setenv("ICECORE_COMMIT", "abc")
    for cached in (provenance.source, provenance.commit):
        cached.cache_clear()
    provenance.remember_source()
    began = provenance.source()
    (package / "a.py").write_text("two")
    monkeypatch.setenv("ICECORE_COMMIT", "def")
    assert (provenance.source(), provenance.commit()) == (began, "abc")
    for cached in (provenance.source, provenance.commit):
        cached.cache_clear()
    assert provenance.source() != began
    monkeypatch.undo()
    for cached in (provenance.source, provenance.commit):
        cached.cache_clear()


def test_a_run_says_where_it_comes_from(tmp_path, monkeypatch):
    """Trained in one process and recorded by another, it keeps the command that trained it."""
    monkeypatch.setattr("sys.argv", ["/somewhere/study.py", "--fast", "/data/of/mine"])
    sweep(tmp_path / "first", tmp_path / "runs", seeds=1, cells=CELLS[:1])
    monkeypatch.setattr("sys.argv", ["icecore", "reproduce", "table1"])
    sweep(tmp_path / "second", tmp_path / "runs", seeds=1, cells=CELLS[:1])
    commands = [record["command"] for name in ("first", "second") for record in Records(tmp_path / name).read()]
    assert commands == ["study.py --fast mine"] * 2
    (result,) = (tmp_path / "runs").rglob("result.json")
    written = json.loads(result.read_text())
    assert len(written["source"]) == 12
    assert written["commit"]
    del written["commit"], written["source"], written["command"]
    result.write_text(json.dumps(written))
    sweep(tmp_path / "third", tmp_path / "runs", seeds=1, cells=CELLS[:1])
    assert Records(tmp_path / "third").read()[0]["command"] == "unknown"


def test_where_the_data_lay_is_no_result(tmp_path):
    def of(place: str, accuracy: float = 1.0) -> Record:
        return record("a", accuracy, config={"task": {"name": "language", "where": {"folder": place}}})

    assert Records(tmp_path).append([of("here")]) == 1
    assert Records(tmp_path).append([of("there")]) == 0
    with pytest.raises(InputError, match="with another result"):
        Records(tmp_path).append([of("there", 0.5)])


def test_a_damaged_line_is_named_and_skipped(tmp_path):
    warnings: list[str] = []
    records = Records(tmp_path, warnings.append)
    assert records.append([record("a"), record("b")]) == 2
    lines = records.path.read_text().splitlines()
    records.path.write_text("\n".join([lines[0], '{"run": "c", "accu', lines[1], '{"run": "d"}', '{"run": "e", "acc']))
    assert [one["run"] for one in records.read()] == ["a", "b"]
    assert [warning.split(", ")[-1] for warning in warnings] == [f"line {n} is damaged and skipped" for n in (2, 4, 5)]
    records.append([record("f")])
    assert [one["run"] for one in records.read()] == ["a", "b", "f"], "a cut-off line does not swallow the next"


def test_two_results_that_disagree_are_an_error(tmp_path):
    records = Records(tmp_path)
    records.append([record("a", 0.5)])
    assert records.append([record("a", 0.5, seconds=9.0, device="another")]) == 0, "the same result, made elsewhere"
    with pytest.raises(InputError, match=r"run a is in .* with another result"):
        records.append([record("b"), record("a", 0.6)])
    assert len(records.read()) == 1, "all or nothing"
    with records.path.open("a") as file:
        file.write(json.dumps(record("a", 0.7)) + "\n")
    with pytest.raises(InputError, match=r"two results of run a that disagree: accuracy 0\.5 and 0\.7"):
        records.by_run()


def test_merging_takes_what_is_new(tmp_path, capsys):
    Records(tmp_path / "ours").append([record("a"), record("b")])
    Records(tmp_path / "theirs").append([record("b"), record("c")])
    arguments = ["results", "merge", str(tmp_path / "theirs"), "--results", str(tmp_path / "ours"), "--json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == {"added": 1, "records": 3, "rates": 0}
    assert main(["results", "merge", str(tmp_path / "nowhere"), "--results", str(tmp_path / "ours")]) == 2
    assert "there are no records in" in capsys.readouterr().err


def test_merging_adds_all_or_nothing(tmp_path, capsys):
    """Whatever is wrong with one of the folders, nothing of the others is taken."""
    for name, accuracy in (("good", 0.5), ("bad", 0.6)):
        Records(tmp_path / name).append([record("a", accuracy), record(name)])
    Records(tmp_path / "inside", name="runs.jsonl").append([record("c")])
    Records(tmp_path / "inside", name="inside.jsonl").append([record("d", 0.1)])
    Records(tmp_path / "ours", name="inside.jsonl").append([record("d", 0.2)])
    ours = ["--results", str(tmp_path / "ours")]
    for sources in (["good", "bad"], ["good", "nowhere"], ["good", "inside"]):
        assert main(["results", "merge", *(str(tmp_path / source) for source in sources), *ours]) == 2
        assert not (tmp_path / "ours" / "runs.jsonl").exists(), sources
    assert "nothing was added" in capsys.readouterr().err
    assert main(["results", "merge", str(tmp_path / "good"), *ours]) == 0


def ways_to_damage(value: Record) -> Iterator[Record]:
    """Without each of its parts in turn, and with each garbled."""
    for name, part in value.items():
        yield {key: other for key, other in value.items() if key != name}
        yield {**value, name: 7 if isinstance(part, str) else "x"}
        if isinstance(part, dict):
            yield from ({**value, name: damaged} for damaged in ways_to_damage(part))


@pytest.mark.parametrize(
    ("file", "task", "names"),
    [
        ("runs.jsonl", "language", ["fig4"]),
        ("runs.jsonl", "imitation", ["fig6"]),
        ("runs.jsonl", "memorization", ["table3", "fig8"]),
        ("inside.jsonl", "language", ["table5"]),
    ],
)
def test_a_record_damaged_anywhere_breaks_no_report(tmp_path, file, task, names):
    stored = Records(Path(__file__).parents[1] / "results", name=file).read()
    whole = next(one for one in stored if one["config"]["task"]["name"] == task)
    ways = list(ways_to_damage(whole))
    assert len(ways) > 50
    lines = [json.dumps({**one, "run": str(number)} if "run" in one else one) for number, one in enumerate(ways)]
    (tmp_path / file).write_text("\n".join(lines))
    warnings: list[str] = []
    claims_of(names, "paper", "released", Records(tmp_path, warnings.append))
    spent_on(names, "paper", "released", Records(tmp_path, warnings.append))
    assert len(set(warnings)) > len(ways) / 5, "what is read was damaged in some, and these were named"


def test_writers_take_turns(tmp_path):
    with (tmp_path / "runs.jsonl").open("a+b") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        writer = threading.Thread(target=lambda: Records(tmp_path).append([record("a")]))
        writer.start()
        writer.join(0.5)
        assert writer.is_alive(), "it waits"
        assert Records(tmp_path).read() == []
    writer.join(10)
    assert [one["run"] for one in Records(tmp_path).read()] == ["a"]


@pytest.mark.parametrize("name", ["loss", "train_accuracy", "exact_match", "best_loss"])
def test_results_that_disagree_in_any_number_are_an_error(tmp_path, name):
    Records(tmp_path).append([record("a", **{name: 1.0})])
    with pytest.raises(InputError, match="with another result"):
        Records(tmp_path).append([record("a", **{name: 2.0})])


def test_one_run_on_two_machines_is_the_same_within_the_tolerance(tmp_path, capsys):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    config = {"task": {"name": "needle"}, "optimization": {"lr": 1e-3}}
    run = name_of(config)
    Records(ours).append([record(run, 1.0, loss=0.1, variance={"all": {"mlp": (0.5, 0.25)}}, config=config)])
    near = record(run, 1.0, loss=0.1 * (1 + 1e-7), variance={"all": {"mlp": (0.5, 0.25 + 1e-7)}}, config=config)
    Records(theirs).append([near | {"threads": 8}])
    assert main(["results", "merge", str(theirs), "--results", str(ours)]) == 0
    assert "0 records added, 1 in" in capsys.readouterr().out
    assert Records(ours).read()[0]["loss"] == 0.1, "the first one stays"
    Records(theirs).path.write_text(json.dumps(near | {"loss": 0.1002, "steps": 7}) + "\n")
    assert main(["results", "merge", str(theirs), "--results", str(ours)]) == 2
    said = capsys.readouterr().err
    assert "with another result: loss 0.1 and 0.1002" in said
    assert "numbers agree within 0.0001 of their value, or within 1e-06); nothing was added" in said
    other = near | {"config": {**config, "optimization": {"lr": 1e-3 * (1 + 1e-7)}}}
    with pytest.raises(InputError, match=r"config\.optimization\.lr 0\.001 and 0\.00100"):
        Records(ours).append([other])


def test_merging_refuses_a_record_whose_id_is_not_its_configs(tmp_path, capsys):
    stored = Records(Path(__file__).parents[1] / "results").read()[0]
    arguments = ["results", "merge", str(tmp_path / "theirs"), "--results", str(tmp_path / "ours")]
    changed = {**stored["config"], "data_seed": 7}
    for wrong in ({"run": "0123456789ab"}, {"config": changed}, {"config": [1]}, {"config": {"task": "needle"}}):
        (tmp_path / "theirs").mkdir(exist_ok=True)
        (tmp_path / "theirs" / "runs.jsonl").write_text(json.dumps(stored | wrong) + "\n")
        assert main(arguments) == 2
        said = capsys.readouterr().err
        assert "is not the run of its config, whose id is" in said
        assert said.count("\n") == 1
    assert not (tmp_path / "ours").exists()
    (tmp_path / "theirs" / "runs.jsonl").write_text(json.dumps(stored | {"config": None}) + "\n")
    assert main(arguments) == 0
    assert "warning: the ids of 1 records without a config cannot be checked" in capsys.readouterr().err


def test_all_stored_records_merge(tmp_path, capsys):
    results = Path(__file__).parents[1] / "results"
    assert main(["results", "merge", str(results), "--results", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""
    assert len(Records(tmp_path).read()) == len(Records(results).read())
