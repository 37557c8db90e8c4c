"""Tracked runs: what is compared with what, and what is refused."""

import json
import shutil
from typing import Any

import pytest
import torch
from looking import cells_of, line_of
from small_runs import MODEL, TASK, Stop, copied, run_json, stop_after
from torch.utils._python_dispatch import TorchDispatchMode

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.models import initialize, names_of_half
from icecore.reporting.pathway import EXCEEDS, REFINED, answer_of, draw, tables, verdict_of
from icecore.store.tensors import load_tensors, save_tensors
from icecore.sweeps import tracking
from icecore.sweeps.tracking import Track, track
from icecore.tasks import Memorization
from icecore.training.snapshots import file_of

SHORT = {"batch": 16, "lr": 1e-2, "warmup_steps": 1}
STILL = {"steps": 3, "batch": 64, "lr": 0.0, "warmup_steps": 1}
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return ice.train(TASK, MODEL, seeds=2, steps=8, out=tmp_path_factory.mktemp("source"), **SHORT)


@pytest.fixture(scope="module")
def thawed(source, tmp_path_factory):
    out = tmp_path_factory.mktemp("thawed")
    return ice.train(TASK, trainable="all", from_run=source, steps=4, out=out, snapshots=2, **SHORT)


@pytest.fixture(scope="module")
def solution(tmp_path_factory):
    task, model, out = (
        Memorization(keys=8),
        ice.Transformer(width=32, init="matched"),
        tmp_path_factory.mktemp("solved"),
    )
    run = ice.train(task, model, seeds=3, steps=130, batch=64, lr=3e-2, warmup_steps=20, out=out, device="cpu")
    assert min(run.accuracy) == 1.0
    return run


def track_of(run, **more):
    return Track(run.path, run.config, run.population, more.pop("seeds", run.config.seeds), **more)


def still(solution, out, **more):
    """A thaw with rate 0: nothing moves."""
    return ice.train(solution.config.task, trainable="all", from_run=solution, out=out, **{**STILL, **more})


def with_weights(run, tmp_path, of_seed):
    """The run with other weights at its end."""
    folder = copied(run, tmp_path / "other")
    values, notes = load_tensors(folder / "weights.safetensors")
    each = [of_seed(seed) for seed in run.config.seeds]
    save_tensors(
        folder / "weights.safetensors", {name: torch.stack([one[name] for one in each]) for name in values}, notes
    )
    return ice.load(folder, "cpu")


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


def test_a_rate_of_zero_is_refined_and_nothing_moves(solution, tmp_path):
    found = track(track_of(still(solution, tmp_path, snapshots=1)))
    for point in found["points"]:
        for name, measure in point["measures"].items():
            assert measure["here"] == pytest.approx(measure["refined"], abs=1e-4), name
            assert measure["score"] == pytest.approx(1, abs=1e-3), name
        assert point["embeddings_moved"] == 0
        assert set(point["norms"].values()) == {1.0}
    assert answer_of(found["points"])[0] == "refined"
    assert ": refined (causal measures: 7 refined)" in tables(found)[0].title


def test_another_solution_on_a_re_drawn_body_is_replaced(solution, tmp_path):
    run = still(solution, tmp_path, seeds=2)
    found = track(track_of(with_weights(run, tmp_path, lambda _: solution.parameters(2))))
    assert [point["accuracy"] for point in found["points"]] == [1.0, 1.0]
    assert tables(found)[0].title.endswith("replaced (causal measures: 7 replaced)")


def test_the_same_embeddings_on_a_re_drawn_body_are_lost(solution, tmp_path):
    run = still(solution, tmp_path, seeds=2)
    body = names_of_half(run.config.model, run.config.dims, "body")

    def redrawn(seed):
        drawn = initialize(run.config.model, run.config.dims, seed + 7)
        return {**solution.parameters(seed), **{name: drawn[name] for name in body}}

    found = track(track_of(with_weights(run, tmp_path, redrawn)))
    assert answer_of(found["points"])[0] == "lost"
    assert "lost (accuracy 0." in tables(found)[0].title
    assert tables(found)[0].title.endswith("after, baseline 0.125)")


def test_a_network_at_the_baseline_has_nothing_to_refine(thawed):
    found = track(track_of(thawed), items=100)
    assert not any(point["above_baseline"]["before"] for point in found["points"])
    scores = [measure["score"] for point in found["points"] for measure in point["measures"].values()]
    assert scores == [None] * len(scores)
    assert "nothing to refine (accuracy 0." in tables(found)[0].title
    assert found["baseline"]["value"] == max(TASK.baselines().values()), "no lazy rule knows more"


def test_a_run_of_phases_is_compared_with_its_last_phases_beginning(tmp_path):
    phases = [{"trainable": "embeddings", "steps": 6}, {"trainable": "all", "steps": 4}]
    run = ice.train(TASK, MODEL, seeds=2, phases=phases, out=tmp_path, **SHORT)
    first = ice.train(TASK, MODEL, seeds=2, steps=6, **SHORT)
    tracked = track_of(run)
    assert (tracked.before_step, tracked.steps) == (6, [10])
    assert torch.equal(tracked.before(1)["token"], first.parameters(1)["token"])
    assert run.path is not None
    shutil.rmtree(run.path / "snapshots")
    with pytest.raises(InputError, match="has no snapshot of step 6, where its last phase begins"):
        track_of(run)


def test_a_single_seed_has_another_body_as_its_null(solution, tmp_path):
    run = still(solution, tmp_path, seeds=1)
    tracked = track_of(run)
    before = tracked.before(0)
    null, name = tracked.null(0, before)
    body = names_of_half(run.config.model, run.config.dims, "body")
    matrices = [name for name in body if before[name].dim() > 1]
    assert name == "a re-drawn body"
    assert all(torch.equal(null[name], before[name]) for name in ("token", "position", "unembed"))
    assert not any(torch.equal(null[name], before[name]) for name in matrices)
    found = track(tracked)
    assert (found["null"], found["steps"]) == ("a re-drawn body", [3])
    assert list(found["points"][0]["controls"]) == ["new embeddings, another body", "old embeddings, another body"]
    assert any("the loss barrier may not tell: with more seeds" in note for note in tables(found)[0].notes)
    assert tables(found)[0].title.endswith("refined (causal measures: 6 refined, 1 cannot tell)")


def test_an_unrelated_body_is_not_the_one_that_embeddings_come_from(source, tmp_path):
    """Embeddings of seed s come from seed s - 1, whose body solves the task with them."""
    more = {"embeddings_from": source, "trainable": "all", "steps": 1, "shift": 1, "out": tmp_path, **SHORT}
    tracked = track_of(ice.train(TASK, MODEL, seeds=[1, 2], **more))
    for seed in (1, 2):
        assert tracked.null(seed, tracked.before(seed))[1] == "a re-drawn body"
    three = ice.train(TASK, MODEL, seeds=3, steps=1, **SHORT)
    tracked = track_of(ice.train(TASK, MODEL, seeds=[1, 2, 3], **{**more, "embeddings_from": three}))
    assert [tracked.unrelated_seed(seed) for seed in (1, 2, 3)] == [3, None, 1]
    assert track(tracked, items=5)["null"] == "the next seed or a re-drawn body"
    with_bodies = {**more, "embeddings_from": None, "from_run": source}
    tracked = track_of(ice.train(TASK, MODEL, seeds=[1, 2], **with_bodies))
    assert tracked.unrelated_seed(2) == 1, "the bodies come along"


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
    assert ["attention", "before", "after", "uniform head"] in rows
    assert {row[0] for row in rows} >= {"new embeddings, old body", "CKA *"}
    for arguments, message in (
        ([str(source.path)], "does not train at its end"),
        ([str(thawed.path), "--beside", str(tmp_path)], "is not a run"),
        ([str(thawed.path), "--figure", str(tmp_path / "a.xyz")], "must end in .png"),
        ([str(thawed.path), "--out", str(thawed.path / "a.json")], "holds only the run"),
        ([str(thawed.path), "--seeds", "7,"], "not 7"),
        ([str(thawed.path), "--seeds", "5"], "the run has 2 seeds, not 5: [0, 1]"),
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


def test_the_figure_begins_at_one_and_breaks_where_nothing_can_be_told(solution, tmp_path):
    run = still(solution, tmp_path, snapshots=2)
    found = track(track_of(run).beside_run(solution.config, solution.population, "NORMAL"))
    for point in found["points"]:
        point["measures"]["CKA"]["score"] = None
        point["measures"]["displacement of the body"]["score"] = 9.0
    found["beside"][0]["measures"]["displacement of the body"]["score"] = 0.25
    found["beside"][1]["measures"]["displacement of the body"]["score"] = 0.25
    causal, others = draw(found).axes
    assert line_of(causal, "new embeddings, old body") == [(0, 1.0), (1, 1.0), (3, 1.0)]
    assert line_of(others, "displacement of the body") == [(0, 1.0), (1, 1.5), (3, 1.5)], "beyond the panel"
    assert all(value != value for _, value in line_of(others, "CKA")), "unknown at step 0 too"
    beside: Any = next(line for line in others.lines if line.get_linestyle() == "None")
    assert beside.get_xydata().tolist() == [[3, 0.25]]
    assert "filled: full training" in others.get_xlabel()


def test_scores_in_words():
    said = [verdict_of(score) for score in (None, EXCEEDS, REFINED, 0.5, 0.25, -2.0)]
    assert said == ["cannot tell", "exceeds", "refined", "between", "replaced", "replaced"]


def test_heads_have_a_table_of_their_own(thawed):
    found = track(track_of(thawed), items=20)
    (table,) = tables(found)[1:]
    rows = {row[0]: row[1:] for row in table.rows}
    assert set(rows) == {
        "same keys as before, most changed head",
        "same keys as before, least changed head",
        "token to the one before, best head",
        "value to its marker, best head",
        "query to its value, best head",
    }
    at_end = [point["head_scores"]["query to its value"] for point in found["points"] if point["step"] == 4]
    best = sum(max(map(max, each["after"])) for each in at_end) / 2
    assert rows["query to its value, best head"][1] == f"{best:.3f}"


class Largest(TorchDispatchMode):
    """Remembers the size of the largest tensor of floats that any operation gives."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for each in found if isinstance(found, list | tuple) else [found]:
            if isinstance(each, torch.Tensor) and each.is_floating_point():
                self.size = max(self.size, each.numel())
        return found


def test_more_items_need_no_more_memory(thawed, monkeypatch):
    for module in ("evaluation", "moments"):
        monkeypatch.setattr(f"icecore.analysis.{module}.ROWS_AT_ONCE", 4)
    monkeypatch.setattr(tracking, "sample_of", lambda task: task.test_set()[:20])
    largest = []
    for items in (8, 24):
        run = track_of(thawed, seeds=(0,))
        with Largest() as seen:
            track(run, items=items)
        largest.append(seen.size)
    assert largest[0] == largest[1] < 8 * 7 * 4 * MODEL.width, "no activation is of all items"
