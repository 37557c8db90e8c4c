"""How long a sweep will take: from stored benches, here and for another device."""

import dataclasses
import re
from typing import Any

import pytest
import torch
from made_up import record_of
from small_sweep import CELLS

from icecore.cli import main
from icecore.cli.reproduce import slot_of, through_in
from icecore.models import Transformer
from icecore.store import Records, write_json
from icecore.sweeps import paper, runner
from icecore.sweeps.estimates import Bench, Slot, bench_of
from icecore.sweeps.scales import SCALES
from icecore.tasks import make_task
from icecore.training import device_name


def test_a_plan_is_of_the_device_that_it_names(tmp_path, capsys):
    """Of a GPU's it has the precision and the memory, of a CPU's a CPU's."""
    for device in ("cpu (x86_64)", "NVIDIA H200"):
        row = {"task": "needle", "model": "transformer", "trainable": "embeddings", "width": 1024, "batch": 1000}
        name = f"{device[:3]}.json"
        write_json(tmp_path / "bench" / name, {"device": device, "rows": [row | {"ms_per_seed_step": 6.0}]})
    cell = next(cell for cell in paper.table1(SCALES["paper"], "released") if cell.label == "needle, Random 1024")
    Records(tmp_path).append([record_of(cell, 0, 1.0)])  # in bf16
    plan = ["reproduce", "table1", "--dry-run", "--scale", "paper", "--only", "needle, Random 1024", "--seeds", "20"]
    plan += ["--results", str(tmp_path)]
    assert main([*plan, "--plan-for", "NVIDIA H200"]) == 0
    assert "needle, Random 1024, seeds 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, " in capsys.readouterr().out
    assert main([*plan, "--plan-for", "cpu (x86_64)"]) == 0
    assert "needle, Random 1024, seeds 0, 1, 2, 3, 4, 5, 6, 7, 8, 9: 100,000" in capsys.readouterr().out
    for more, message in (
        (["--plan-for", "NVIDIA H20"], "did you mean 'NVIDIA H200'?"),
        (["--plan-for", "NVIDIA H200", "--device", "cpu"], "drop --device"),
        (["--plan-for", "NVIDIA H200", "--results", str(tmp_path / "none")], "has no bench; on the device, icecore be"),
        (["--seeds", "100000000"], "10000"),
    ):
        assert main([*plan, *more]) == 2
        assert message in capsys.readouterr().err


def test_times_are_estimated_from_the_bench_of_the_device(tmp_path):
    row = {"task": "needle", "model": "transformer", "trainable": "embeddings", "width": 1024, "batch": 1000}
    write_json(tmp_path / "bench" / "a.json", {"device": "mine", "rows": [{**row, "ms_per_seed_step": 4.0}]})
    write_json(tmp_path / "bench" / "b.json", {"device": "other", "rows": [{**row, "ms_per_seed_step": 9.0}]})
    (needle,) = [c for c in paper.table1(SCALES["paper"], "released") if c.label == "needle, Random 1024"]
    bench = bench_of(tmp_path, "mine")
    assert bench is not None
    assert bench.seconds(runner.Planned(needle, (0, 1))) == pytest.approx(12 + 1.06 * 2 * 10_000 * 0.004)
    assert bench_of(tmp_path, "nobody's") is None
    (student,) = [c for c in paper.fig6(SCALES["paper"], "paper") if c.label == "imitation of 4, Random 512x3"]
    of_needle = 10_000 * 0.004 * 0.5 * 3 / 2 * 40 / make_task("needle").max_length  # half the width, three layers
    assert bench.seconds(runner.Planned(student, (0,))) == pytest.approx(12 + 1.06 * of_needle)
    write_json(
        tmp_path / "bench" / "a.json",
        {"device": "mine", "rows": [{**row, "ms_per_seed_step": 4.0}, {**row, "width": 64, "ms_per_seed_step": 0.25}]},
    )
    narrow = dataclasses.replace(needle, model=Transformer(width=256))
    bench = bench_of(tmp_path, "mine")
    assert bench is not None
    assert bench.seconds(runner.Planned(narrow, (0,))) == pytest.approx(12 + 1.06 * 10_000 * 0.001), "halfway"


def test_a_sweep_is_planned_for_a_device_that_is_not_here(tmp_path, capsys):
    row = {"task": "needle", "model": "transformer", "trainable": "embeddings", "width": 1024, "batch": 1000}
    write_json(tmp_path / "bench" / "a.json", {"device": "theirs", "rows": [{**row, "ms_per_seed_step": 4.0}]})
    (cell,) = [c for c in paper.table1(SCALES["paper"], "released") if c.label == "needle, Random 1024"]
    Records(tmp_path).append([record_of(cell, 0, 1.0, "bf16")])
    command = ["reproduce", "table1", "--scale", "paper", "--only", cell.label, "--results", str(tmp_path)]
    assert main([*command, "--dry-run", "--plan-for", "theirs"]) == 0
    first, _ = capsys.readouterr().out.splitlines()
    assert first == "needle, Random 1024, seeds 1, 2: 20,000 seed-steps, about 97 s", "a GPU's runs are in bf16"
    assert main([*command, "--dry-run", "--plan-for", "their"]) == 2
    assert "did you mean 'theirs'?" in capsys.readouterr().err
    assert main([*command, "--plan-for", "theirs"]) == 2
    assert "--plan-for is of --dry-run" in capsys.readouterr().err


def test_minutes_leave_what_would_not_be_through(tmp_path, capsys):
    rows = [
        {"task": task, "model": "transformer", "trainable": "embeddings", "width": 1024, "batch": 1000, **speed}
        for task, speed in (("needle", {"ms_per_seed_step": 4.0}), ("parentheses", {"ms_per_seed_step": 1.0}))
    ]
    write_json(tmp_path / "bench" / "a.json", {"device": "mine", "rows": rows})
    labels = ("needle, Random 1024", "parentheses, Random 1024")
    cells = [cell for cell in paper.table1(SCALES["paper"], "released") if cell.label in labels]
    populations = runner.missing(cells, 2, Records(tmp_path), "fp32", "cpu")
    chosen = through_in(slot_of(60, tmp_path, "mine"), populations, tmp_path)
    assert [one.cell.label for one in chosen] == ["parentheses, Random 1024"], "needle takes 97 s, this one 33"
    normal = [cell for cell in paper.table1(SCALES["paper"], "released") if cell.label == "needle, Normal 1024"]
    missing = runner.missing(normal, 2, Records(tmp_path), "fp32", "cpu")
    assert through_in(slot_of(1e9, tmp_path, "mine"), missing, tmp_path) == []
    assert "needle, Normal 1024, seeds 0, 1 is left out: the bench of mine has no row" in capsys.readouterr().err
    assert main(["reproduce", "table1", "--minutes", "1", "--results", str(tmp_path), "--runs", str(tmp_path)]) == 2
    assert "--minutes needs a bench" in capsys.readouterr().err


def test_beyond_the_widest_bench_time_grows_with_the_square_and_with_the_batch(tmp_path):
    row = {"task": "needle", "model": "transformer", "trainable": "embeddings", "width": 64, "batch": 500}
    write_json(tmp_path / "bench" / "a.json", {"device": "mine", "rows": [row | {"ms_per_seed_step": 1.0}]})
    cells = {cell.label: cell for cell in paper.table1(SCALES["paper"], "released")}
    bench = bench_of(tmp_path, "mine")
    assert bench is not None
    steps = 10_000 * 0.001 * 2  # of a batch twice as large
    for label, factor in (("needle, Random 1024", 16**2), ("needle, Random 16", 1 / 4)):
        found = bench.seconds(runner.Planned(cells[label], (0,)))
        assert found == pytest.approx(12 + 1.06 * steps * factor)


def test_minutes_are_those_of_all_populations_together(tmp_path, monkeypatch, capsys):
    row = {"task": "needle", "model": "transformer", "trainable": "embeddings", "width": 1024, "batch": 1000}
    name = device_name(torch.device("cpu"))
    write_json(tmp_path / "bench" / "a.json", {"device": name, "rows": [row | {"ms_per_seed_step": 4.0}]})
    cells = [cell for cell in paper.table1(SCALES["paper"], "released") if cell.label == "needle, Random 1024"]
    one, two = runner.missing(cells, 2, Records(tmp_path), "fp32", "cpu", at_once=1)  # 54.4 s each
    assert through_in(slot_of(100, tmp_path, name), [one, two], tmp_path) == [one]
    assert through_in(slot_of(109, tmp_path, name), [one, two], tmp_path) == [one, two]
    sweep = ["reproduce", "table1", "--scale", "paper", "--only", "needle, Random 1024", "--at-once", "1"]
    sweep += ["--seeds", "2", "--device", "cpu", "--results", str(tmp_path), "--runs", str(tmp_path / "runs")]
    assert main([*sweep, "--dry-run"]) == 0
    assert "2 populations, 20,000 seed-steps, about 2 minutes\n" in capsys.readouterr().out
    chosen: list[Any] = []
    monkeypatch.setattr("icecore.sweeps.runner.run_missing", lambda populations, *_: chosen.extend(populations) or [])
    assert main([*sweep, "--minutes", "1"]) == 0
    assert chosen == [one], "of 60 seconds"
    assert re.search(r"^1 population in \d+ s; 1 left for another time$", capsys.readouterr().out, re.MULTILINE)


def test_a_slow_population_leaves_less_room_for_the_next(tmp_path):
    """By the bench each takes 54.4 s; the first takes twice as long, so the third has no more room in 300 s."""
    row = {"task": "needle", "model": "transformer", "trainable": "embeddings", "width": 1024, "batch": 1000}
    bench = Bench("mine", [row | {"ms_per_seed_step": 4.0}])
    cells = [cell for cell in paper.table1(SCALES["paper"], "released") if cell.label == "needle, Random 1024"]
    one, two, three = runner.missing(cells, 3, Records(tmp_path), "fp32", "cpu", at_once=1)
    clock = [1000.0]
    slot = Slot(300, bench, lambda: clock[0])
    assert slot.may_begin(one)
    clock[0] += 108.8
    assert slot.may_begin(two), "191 s are left, and it should take 109"
    assert slot.pace == pytest.approx(2.0)
    clock[0] += 108.8
    assert not slot.may_begin(three), "82 s are left: enough by the bench, not at this pace"
    assert slot.left == [three]
    fast = Slot(100, bench, lambda: clock[0])
    assert fast.may_begin(one)
    clock[0] += 20
    assert fast.may_begin(two), "80 s are left"
    assert fast.pace == 1.0, "a bench is never taken to be too slow"


def test_what_may_not_begin_is_not_trained(tmp_path):
    records = Records(tmp_path)
    populations = runner.missing(CELLS, 1, records, "fp32", "cpu")
    asked: list[Any] = []
    arguments = (tmp_path / "runs", "cpu", "fp32", lambda _: None, lambda *_: None)
    runner.run_missing(populations, records, *arguments, may_begin=lambda one: asked.append(one) or len(asked) == 2)
    assert asked == populations
    assert [record["setting"] for record in records.read()] == [CELLS[1].setting]
