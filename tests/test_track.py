"""Tracked runs: what is compared with what, and what is refused."""

import json
import shutil
from typing import Any

import pytest
import torch
from looking import cells_of
from small_runs import MODEL, TASK, Stop, run_json, stop_after

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.models import names_of_half
from icecore.reporting.pathway import REFINED, draw, tables, verdict_of
from icecore.sweeps import tracking
from icecore.sweeps.tracking import Track, track
from icecore.training.snapshots import file_of

SHORT = {"batch": 16, "lr": 1e-2, "warmup_steps": 1}
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return ice.train(TASK, MODEL, seeds=2, steps=8, out=tmp_path_factory.mktemp("source"), **SHORT)


@pytest.fixture(scope="module")
def thawed(source, tmp_path_factory):
    out = tmp_path_factory.mktemp("thawed")
    return ice.train(TASK, trainable="all", from_run=source, steps=4, out=out, snapshots=2, **SHORT)


def track_of(run, **more):
    return Track(run.path, run.config, run.population, more.pop("seeds", run.config.seeds), **more)


def test_every_seed_is_measured_at_every_snapshot_against_its_start(source, thawed):
    run, told = track_of(thawed), []
    found = track(run, items=50, on_progress=lambda *args: told.append(args))
    assert [(point["seed"], point["step"]) for point in found["points"]] == [(0, 1), (0, 4), (1, 1), (1, 4)]
    assert (found["before"], found["steps"], found["items"], found["null"]) == (0, [1, 4], 50, "the next seed")
    assert told[-1][1] == told[-1][2] == 7 * 4
    for name, value in run.before(1).items():
        assert torch.equal(value, source.parameters(1)[name]), name
    assert torch.equal(run.null(1, run.before(1))[0]["token"], source.parameters(0)["token"])
    moved = [point["measures"]["displacement of the body"]["here"] for point in found["points"][:2]]
    assert moved[0] == 0 < moved[1], "the first step's rate is 0"
    assert json.loads(json.dumps(found)) == found
    assert all(cell for cell in cells_in(tables(found)))


def cells_in(found):
    return [cell for table in found for row in table.rows for cell in row[:2]]


def test_a_rate_of_zero_is_refined_and_nothing_moves(source, tmp_path):
    still = ice.train(
        TASK, trainable="all", from_run=source, steps=3, out=tmp_path, snapshots=1, **{**SHORT, "lr": 0.0}
    )
    found = track(track_of(still), items=50)
    for point in found["points"]:
        for name, measure in point["measures"].items():
            assert measure["here"] == pytest.approx(measure["refined"], abs=1e-4), name
            assert measure["score"] is None or measure["score"] > 0.999, name
        assert point["embeddings_moved"] == 0
        assert set(point["norms"].values()) == {1.0}


def test_a_run_of_phases_is_compared_with_its_last_phases_beginning(tmp_path):
    phases = [{"trainable": "embeddings", "steps": 6}, {"trainable": "all", "steps": 4}]
    run = ice.train(TASK, MODEL, seeds=2, phases=phases, out=tmp_path, snapshots=1, **SHORT)
    first = ice.train(TASK, MODEL, seeds=2, steps=6, **SHORT)
    tracked = track_of(run)
    assert (tracked.before_step, tracked.steps) == (6, [10])
    assert torch.equal(tracked.before(1)["token"], first.parameters(1)["token"])
    assert run.path is not None
    shutil.rmtree(run.path / "snapshots")
    with pytest.raises(InputError, match="has no snapshot of step 6, where its last phase begins"):
        track_of(run)


def test_a_single_seed_has_another_body_as_its_null(source, tmp_path):
    run = ice.train(TASK, trainable="all", from_run=source, seeds=1, steps=2, out=tmp_path, **SHORT)
    tracked = track_of(run)
    before = tracked.before(0)
    null, name = tracked.null(0, before)
    body = names_of_half(MODEL, run.config.dims, "body")
    matrices = [name for name in body if before[name].dim() > 1]
    assert name == "a re-drawn body"
    assert all(torch.equal(null[name], before[name]) for name in ("token", "position", "unembed"))
    assert not any(torch.equal(null[name], before[name]) for name in matrices)
    found = track(tracked, items=20)
    assert (found["null"], found["steps"]) == ("a re-drawn body", [2])
    assert any("train several seeds" in note for note in tables(found)[0].notes)


def test_full_training_stands_beside(thawed, tmp_path):
    normal = ice.train(TASK, MODEL, "all", seeds=3, steps=3, out=tmp_path, **SHORT)
    tracked = track_of(thawed, seeds=(1,)).beside_run(normal.config, normal.population, "NORMAL")
    found = track(tracked, items=20)
    assert [point["seed"] for point in found["beside"]] == [1]
    assert tables(found)[0].headings[-1] == "beside"
    other = ice.train(TASK, ice.Transformer(width=16, heads=2), "all", steps=1, **SHORT)
    with pytest.raises(InputError, match="OTHER has another model"):
        track_of(thawed).beside_run(other.config, other.population, "OTHER")
    alone = ice.train(TASK, MODEL, "all", steps=1, **SHORT)
    with pytest.raises(InputError, match=r"ALONE has the seeds \[0\], not \[1\]"):
        track_of(thawed).beside_run(alone.config, alone.population, "ALONE")


def test_what_cannot_be_tracked_is_refused(source, thawed, tmp_path):
    normal = ice.train(TASK, MODEL, "all", steps=1, out=tmp_path, **SHORT)
    with pytest.raises(InputError, match="trains from its seeds: there is nothing before it"):
        track_of(normal)
    frozen = ice.train(TASK, from_run=source, steps=1, out=tmp_path, **SHORT)
    with pytest.raises(InputError, match=r"does not train at its end \(embeddings\)"):
        track_of(frozen)
    with pytest.raises(InputError, match=r"the run has the seeds \[0, 1\], not 5"):
        track_of(thawed, seeds=(5,))


def test_only_one_network_per_role_is_in_memory(thawed, monkeypatch):
    """A snapshot is read when it is measured: no more are held with more of them."""
    read = []
    plain = tracking.parameters_at

    def counted(*arguments):
        read.append(arguments[2:4])
        return plain(*arguments)

    monkeypatch.setattr(tracking, "parameters_at", counted)
    track(track_of(thawed), items=10)
    assert read == [(0, 0), (0, 1), (1, 0), (0, 1), (0, 0), (1, 1)]


def test_track_on_the_command_line(source, thawed, tmp_path, capsys):
    figure, out = tmp_path / "track.png", tmp_path / "track.json"
    flags = ["--items", "20", "--device", "cpu"]
    found = run_json(capsys, "track", thawed.path, *flags, "--figure", figure, "--out", out, "--json")
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert json.loads(out.read_text())["points"] == found["points"]
    assert main(["track", str(thawed.path), *flags, "--seeds", "1"]) == 0
    rows = cells_of(capsys.readouterr().out)
    assert rows[0][:2] == ["measure", "here"]
    assert {row[0] for row in rows} >= {"new embeddings, old body", "CKA *"}
    for arguments, message in (
        ([str(source.path)], "does not train at its end"),
        ([str(thawed.path), "--beside", str(tmp_path)], "is not a run"),
        ([str(thawed.path), "--figure", str(tmp_path / "a.xyz")], "must end in .png"),
        ([str(thawed.path), "--out", str(thawed.path / "a.json")], "holds only the run"),
        ([str(thawed.path), "--seeds", "7,"], "not 7"),
        ([str(tmp_path)], "is not a run"),
    ):
        assert main(["track", *arguments]) == 2
        said = capsys.readouterr().err
        assert message in said
        assert said.count("error: ") == 1


def test_a_damaged_snapshot_is_one_line(thawed, tmp_path, capsys):
    run = tmp_path / thawed.path.name
    shutil.copytree(thawed.path, run)
    file_of(run, 1, 0).write_bytes(b"no tensors")
    assert main(["track", str(run), "--items", "5", "--device", "cpu"]) == 2
    assert "is damaged" in capsys.readouterr().err


def test_an_unfinished_thaw_is_refused(source, tmp_path, capsys):
    settings = {"steps": 4, "on_progress": stop_after(1), "log_every": 1, **SHORT}
    with pytest.raises(Stop):
        ice.train(TASK, trainable="all", from_run=source, out=tmp_path, **settings)
    (run,) = (tmp_path / "needle").iterdir()
    assert main(["track", str(run)]) == 2
    assert "is unfinished" in capsys.readouterr().err


def test_the_figure_begins_at_one_and_breaks_where_nothing_can_be_told(thawed):
    found = track(track_of(thawed), items=20)
    for point in found["points"]:
        point["measures"]["CKA"]["score"] = None
    lines: dict[str, Any] = {str(line.get_label()): line for panel in draw(found).axes for line in panel.lines}
    assert list(lines["displacement of the body"].get_xdata()) == [0, 1, 4]
    assert lines["displacement of the body"].get_ydata()[0] == 1.0
    assert all(value != value for value in list(lines["CKA"].get_ydata())[1:])
    said = [verdict_of(score) for score in (None, REFINED, 0.5, 0.25)]
    assert said == ["cannot tell", "refined", "between", "replaced"]
