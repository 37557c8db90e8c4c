"""Estimated time of a sweep, from stored benches, here and for another device."""

import dataclasses

import pytest
import torch
from made_up import cells_at, record_of

from icecore.cli import main
from icecore.models import Transformer
from icecore.store import Records, write_json
from icecore.sweeps import runner
from icecore.sweeps.estimates import bench_of
from icecore.tasks import make_task
from icecore.training import device_name


def test_a_plan_is_of_the_device_that_it_names(tmp_path, capsys):
    """A GPU's plan has its precision and memory, a CPU's those of a CPU."""
    for device in ("cpu (x86_64)", "NVIDIA H200"):
        row = {"task": "needle", "model": "transformer", "trainable": "embeddings", "width": 1024, "batch": 1000}
        name = f"{device[:3]}.json"
        write_json(tmp_path / "bench" / name, {"device": device, "rows": [row | {"ms_per_seed_step": 6.0}]})
    cell = next(cell for cell in cells_at("table1") if cell.label == "needle, Random 1024")
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
    (needle,) = [c for c in cells_at("table1") if c.label == "needle, Random 1024"]
    bench = bench_of(tmp_path, "mine")
    assert bench is not None
    assert bench.seconds(runner.Job(needle, (0, 1))) == pytest.approx(12 + 1.06 * 2 * 10_000 * 0.004)
    assert bench_of(tmp_path, "nobody's") is None
    (student,) = [c for c in cells_at("fig6", "paper", "paper") if c.label == "imitation of 4, Random 512x3"]
    of_needle = 10_000 * 0.004 * 0.5 * 3 / 2 * 40 / make_task("needle").max_length  # half the width, three layers
    assert bench.seconds(runner.Job(student, (0,))) == pytest.approx(12 + 1.06 * of_needle)
    write_json(
        tmp_path / "bench" / "a.json",
        {"device": "mine", "rows": [{**row, "ms_per_seed_step": 4.0}, {**row, "width": 64, "ms_per_seed_step": 0.25}]},
    )
    narrow = dataclasses.replace(needle, model=Transformer(width=256))
    bench = bench_of(tmp_path, "mine")
    assert bench is not None
    assert bench.seconds(runner.Job(narrow, (0,))) == pytest.approx(12 + 1.06 * 10_000 * 0.001), "halfway"


def test_a_sweep_is_planned_for_a_device_that_is_not_here(tmp_path, capsys):
    row = {"task": "needle", "model": "transformer", "trainable": "embeddings", "width": 1024, "batch": 1000}
    write_json(tmp_path / "bench" / "a.json", {"device": "theirs", "rows": [{**row, "ms_per_seed_step": 4.0}]})
    (cell,) = [c for c in cells_at("table1") if c.label == "needle, Random 1024"]
    Records(tmp_path).append([record_of(cell, 0, 1.0, "bf16")])
    command = ["reproduce", "table1", "--scale", "paper", "--only", cell.label, "--results", str(tmp_path)]
    assert main([*command, "--dry-run", "--plan-for", "theirs"]) == 0
    first, _ = capsys.readouterr().out.splitlines()
    assert first == "needle, Random 1024, seeds 1, 2: 20,000 seed-steps, about 97 s", "a GPU's runs are in bf16"
    assert main([*command, "--dry-run", "--plan-for", "their"]) == 2
    assert "did you mean 'theirs'?" in capsys.readouterr().err
    assert main([*command, "--plan-for", "theirs"]) == 2
    assert "--plan-for needs --dry-run" in capsys.readouterr().err


def test_beyond_the_widest_bench_time_grows_with_the_square_and_with_the_batch(tmp_path):
    row = {"task": "needle", "model": "transformer", "trainable": "embeddings", "width": 64, "batch": 500}
    write_json(tmp_path / "bench" / "a.json", {"device": "mine", "rows": [row | {"ms_per_seed_step": 1.0}]})
    cells = {cell.label: cell for cell in cells_at("table1")}
    bench = bench_of(tmp_path, "mine")
    assert bench is not None
    steps = 10_000 * 0.001 * 2  # of a batch twice as large
    for label, factor in (("needle, Random 1024", 16**2), ("needle, Random 16", 1 / 4)):
        found = bench.seconds(runner.Job(cells[label], (0,)))
        assert found == pytest.approx(12 + 1.06 * steps * factor)


def test_a_plan_adds_up_its_populations(tmp_path, capsys):
    row = {"task": "needle", "model": "transformer", "trainable": "embeddings", "width": 1024, "batch": 1000}
    name = device_name(torch.device("cpu"))
    write_json(tmp_path / "bench" / "a.json", {"device": name, "rows": [row | {"ms_per_seed_step": 4.0}]})
    sweep = ["reproduce", "table1", "--scale", "paper", "--only", "needle, Random 1024", "--at-once", "1"]
    sweep += ["--seeds", "2", "--device", "cpu", "--results", str(tmp_path), "--runs", str(tmp_path / "runs")]
    assert main([*sweep, "--dry-run"]) == 0  # 54.4 s each
    assert "2 populations, 20,000 seed-steps, about 2 minutes\n" in capsys.readouterr().out
