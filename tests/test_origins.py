"""Sweeps whose runs start from other runs: sources are trained first, and thaws are tracked."""

import dataclasses
import json
import threading
import time
from typing import Any

import icecore as ice
from icecore.cli import main
from icecore.store import TRACKS, Records
from icecore.store.record_schema import is_valid
from icecore.sweeps.cells import Cell, Origin, Tracking, with_needed
from icecore.sweeps.names import CellName
from icecore.sweeps.runner import Job, missing, run_missing, train_population
from icecore.tasks import DecimalAddition, Needle, Task
from icecore.training import RunFolder

TASK, MODEL = Needle(max_pairs=3, values=20, vocabulary=40, test_size=50), ice.Transformer(width=16, init="matched")
TRAINING = {"steps": 12, "batch": 16, "lr": 1e-2, "warmup_steps": 2}


def cell(kind: str, trainable: str, task: Task = TASK, **more: Any) -> Cell:
    return Cell(CellName(task.name, kind, 16), task, MODEL, trainable, training=TRAINING, **more)


RANDOM, NORMAL = cell("Random", "embeddings"), cell("Normal", "all")
THAWED = cell("Thawed", "all", origin=Origin(RANDOM, "all"), tracking=Tracking(2, 30, NORMAL))
RESCALED = cell("Rescaled", "all", origin=Origin(RANDOM, "all", "unembed"))
MOVED = cell("Moved", "embeddings", DecimalAddition(digits=2, test_size=50), origin=Origin(NORMAL, "body"))


def sweep(cells, folder, seeds=2):
    records = Records(folder)
    jobs = missing(cells, seeds, records, "fp32", "cpu", runs=folder / "runs")
    assert not run_missing(jobs, records, folder / "runs", "cpu", "fp32", lambda _: None, lambda *_: None)
    return [job.cell.name.kind for job in jobs]


def test_a_cell_has_the_setting_of_the_run_that_starts_from_its_source(tmp_path):
    source = train_population(Job(RANDOM, (0, 1)), tmp_path, "cpu", "fp32")
    for one, start in ((THAWED, {"from_run": source}), (RESCALED, {"from_run": source, "rescale": "unembed"})):
        run = ice.train(TASK, MODEL, "all", out=tmp_path, device="cpu", **start, **TRAINING)
        assert run.config.run_id == one.config((0, 1), "fp32").run_id
    settings = {one.setting for one in (RANDOM, NORMAL, THAWED, RESCALED)}
    assert len(settings) == 4, "where a run starts is part of its setting"


def test_sources_are_trained_once_and_recorded_runs_are_not_repeated(tmp_path):
    cells = with_needed([MOVED, RESCALED, THAWED])
    assert [one.name.kind for one in cells] == ["Normal", "Moved", "Random", "Rescaled", "Thawed"]
    assert sweep(cells, tmp_path) == ["Normal", "Moved", "Random", "Rescaled", "Thawed"]
    assert sweep(cells, tmp_path) == []
    assert len(list(tmp_path.glob("runs/*/*/result.json"))) == 5
    assert {record["seed"] for record in Records(tmp_path).read()} == {0, 1}


def test_a_thaw_alone_trains_its_source_and_records_only_itself(tmp_path):
    sweep([RESCALED], tmp_path)
    assert {record["setting"] for record in Records(tmp_path).read()} == {RESCALED.setting}
    folder = RunFolder.of(RANDOM.config((0, 1), "fp32"), tmp_path / "runs")
    assert folder.is_complete
    start = json.loads(
        (RunFolder.of(RESCALED.config((0, 1), "fp32"), tmp_path / "runs").path / "config.json").read_text()
    )
    assert start["start"]["where"]["run"] == folder.path.name


def test_a_tracked_cell_records_its_measures_per_seed(tmp_path):
    sweep([THAWED], tmp_path)
    records = Records(tmp_path).beside(TRACKS).read()
    assert all(map(is_valid, records))
    assert [(record["seed"], record["setting"]) for record in records] == [(0, THAWED.setting), (1, THAWED.setting)]
    for record in records:
        own = record["track"]
        assert {point["seed"] for point in (*own["points"], *own["beside"])} == {record["seed"]}
        assert [point["step"] for point in own["points"]] == own["steps"]
        assert len(own["beside"]) == 1, "full training stands beside it"
    first = records[0]["track"]["points"][0]
    name = next(iter(first["measures"]))
    for damage in (
        {"points": []},
        {"null": None},
        {"points": [{"seed": 0, "step": 1}]},
        {"points": [{**first, "above_baseline": {"before": True}}]},
        {"points": [{**first, "measures": {name: {**first["measures"][name], "score": "high"}}}]},
    ):
        assert not is_valid({**records[0], "track": {**records[0]["track"], **damage}})


def test_a_run_without_its_track_is_measured_again_and_keeps_its_record(tmp_path):
    untracked = dataclasses.replace(THAWED, tracking=None)
    sweep([untracked], tmp_path)
    before = Records(tmp_path).read()
    assert sweep([THAWED], tmp_path) == ["Thawed"]
    assert Records(tmp_path).read() == before
    assert len(Records(tmp_path).beside(TRACKS).read()) == 2


def test_a_source_that_another_process_trains_is_waited_for(tmp_path):
    folder, config = RunFolder.of(RANDOM.config((0,), "fp32"), tmp_path), RANDOM.config((0,), "fp32")
    done = []

    def thaw():
        done.append(train_population(Job(RESCALED, (0,)), tmp_path, "cpu", "fp32", lambda _: None))

    thread = threading.Thread(target=thaw)
    with folder.begun(config, None, False):
        thread.start()
        time.sleep(0.5)
        assert not done, "its source is locked"
    thread.join(timeout=60)
    assert done[0].config.seeds == (0,)


def test_tracks_are_merged_with_their_runs(tmp_path, capsys):
    sweep([THAWED], tmp_path / "theirs")
    assert main(["results", "merge", str(tmp_path / "theirs"), "--results", str(tmp_path / "ours")]) == 0
    assert len(Records(tmp_path / "ours").beside(TRACKS).read()) == 2
    assert not (tmp_path / "ours" / "inside.jsonl").exists(), "nothing was measured there"
    assert "2 records added" in capsys.readouterr().out
