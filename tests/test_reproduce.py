"""Sweeps: nothing twice, nothing lost."""

import dataclasses
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made_up import cells_at
from small_sweep import CELLS, SMALL, sweep

from icecore.cli import main
from icecore.cli.sweeps import DEFAULT_RESULTS
from icecore.errors import Interrupted
from icecore.models import LSTM, Transformer
from icecore.paper import EXPERIMENTS
from icecore.paper.scales import PRESETS, laptop_training
from icecore.store import Records, write_json
from icecore.sweeps import runner
from icecore.sweeps.cells import Cell
from icecore.sweeps.cluster import train_on_worker
from icecore.sweeps.laptop import recipe_for, small_task
from icecore.sweeps.names import CellName

TINY = str(Path(__file__).parent / "tiny_sweep.py")


def test_what_is_recorded_is_not_run_again(tmp_path):
    assert sweep(tmp_path, tmp_path / "runs") == ["modular-addition, Random, seeds 0, 1", "needle, Normal, seeds 0, 1"]
    assert sweep(tmp_path, tmp_path / "other runs") == []
    assert sweep(tmp_path, tmp_path / "runs", seeds=3) == ["modular-addition, Random, seed 2", "needle, Normal, seed 2"]
    records = Records(tmp_path).read()
    assert len(records) == len({record["run"] for record in records}) == 6
    for one in records:
        assert one.keys() >= {
            "config",
            "accuracy",
            "loss",
            "baselines",
            "trained_parameters",
            "steps",
            "seconds",
            "commit",
        }
        assert one["config"]["seeds"] == [one["seed"]]
    assert {"train_accuracy" in one for one in records if one["config"]["task"]["name"] == "modular-addition"} == {True}


def test_a_seed_has_one_name_in_every_population(tmp_path):
    sweep(tmp_path / "a", tmp_path / "runs", seeds=3, cells=CELLS[:1])
    at_once = runner.missing(CELLS[:1], 3, Records(tmp_path / "b"), "fp32", "cpu", at_once=1)
    assert [one.seeds for one in at_once] == [(0,), (1,), (2,)]
    runner.run_missing(
        at_once, Records(tmp_path / "b"), tmp_path / "runs", "cpu", "fp32", lambda _: lambda _: None, lambda *_: None
    )
    together, alone = (Records(tmp_path / name).by_run() for name in "ab")
    assert together.keys() == alone.keys()
    assert len({one["loss"] for one in together.values()}) == 3, "each has its own record"
    for run, one in together.items():
        assert one["loss"] == pytest.approx(alone[run]["loss"], abs=1e-5)  # sums in another order
        assert one["accuracy"] == pytest.approx(alone[run]["accuracy"])


def test_cells_that_share_a_setting_are_run_once():
    cells = cells_at("table1") + cells_at("fig7")
    settings = [cell.setting for cell in cells]
    assert len(settings) == 20 + 56
    assert len(set(settings)) == 20 + 56 - 16, "the 16 transformers of table 1 are in figure 7 too"
    populations = runner.missing(cells, 10, Records(Path("nowhere")), "bf16", "cuda")
    assert sum(len(one.seeds) for one in populations) == 600


def test_two_runners_do_not_do_the_same_run(tmp_path):
    with runner.held(tmp_path, runner.Job(CELLS[0], (1,))) as is_ours:
        assert is_ours
        with runner.held(tmp_path, runner.Job(CELLS[0], (0, 1))) as overlaps:
            assert not overlaps
        assert sweep(tmp_path, tmp_path / "runs", cells=CELLS[:1]) == [], "seed 1 is another's"
    assert len(sweep(tmp_path, tmp_path / "runs", cells=CELLS[:1])) == 1


def test_a_rays_worker_waits_for_no_lock_of_its_driver(tmp_path, monkeypatch):
    """Both may have the same folder, as at a laptop's scale."""
    monkeypatch.setenv("ICECORE_COMMAND", "")  # a worker sets it
    population = runner.Job(CELLS[0], (0,))
    with runner.held(tmp_path, population) as is_ours:
        assert is_ours
        made = train_on_worker(population, str(tmp_path), "cpu", "fp32", "icecore x")
    assert len(made.records) == 1


def test_an_interrupted_sweep_asks_for_no_flag_that_it_has_not(tmp_path, monkeypatch, capsys):
    def interrupt(*_arguments, **_settings):
        raise Interrupted("interrupted after step 3")

    monkeypatch.setattr("icecore.training.run.train_run", interrupt)
    at = ["--results", str(tmp_path), "--runs", str(tmp_path / "runs")]
    assert main(["reproduce", "table1", "--only", "modular-addition, Random 1024", "--seeds", "1", *at]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "interrupted after step 3; continue with the same command"


def test_seeds_that_began_together_go_on_together_when_more_are_wanted(tmp_path):
    records, runs = Records(tmp_path), tmp_path / "runs"

    def interrupt(_progress):
        raise KeyboardInterrupt

    (begun,) = runner.missing(CELLS[:1], 2, records, "fp32", "cpu")
    with pytest.raises(KeyboardInterrupt):
        runner.train_population(begun, runs, "cpu", "fp32", interrupt)
    groups = {
        (seeds, most): [one.seeds for one in runner.missing(CELLS[:1], seeds, records, "fp32", "cpu", most, runs)]
        for seeds, most in ((4, None), (2, None), (1, None), (4, 1))
    }
    assert groups == {
        (4, None): [(0, 1), (2, 3)],
        (2, None): [(0, 1)],
        (1, None): [(0,)],
        (4, 1): [(0,), (1,), (2,), (3,)],
    }
    assert [one.seeds for one in runner.missing(CELLS[:1], 4, records, "tf32", "cpu", None, runs)] == [(0, 1, 2, 3)]
    write_json(runs / "needle" / "broken" / "config.json", {"precision": "fp32", "task": [], "seeds": 1})
    assert [one.seeds for one in runner.missing(CELLS, 3, records, "fp32", "cpu", None, runs)] == [
        (0, 1),
        (2,),
        (0, 1, 2),
    ]


def test_a_failure_is_reported_and_the_sweep_goes_on(tmp_path):
    hopeless = Cell(
        CellName("hopeless", "Random"), CELLS[0].task, CELLS[0].model, "embeddings", "released", {**SMALL, "lr": 1e38}
    )
    records = Records(tmp_path)
    populations = runner.missing([hopeless, CELLS[1]], 1, records, "fp32", "cpu")
    failures = runner.run_missing(
        populations, records, tmp_path / "runs", "cpu", "fp32", lambda _: lambda _: None, lambda *_: None
    )
    assert [failure.label for failure in failures] == ["hopeless, Random, seed 0"]
    assert "not finite" in failures[0].reason
    assert [one["config"]["task"]["name"] for one in records.read()] == ["needle"]


def test_a_sweep_killed_at_random_moments_ends_as_one_that_was_not(tmp_path):
    """Started again and again, every run ends exactly once, with the bits it would have had."""

    def command(where: str) -> list[str]:
        folders = ["--results", str(tmp_path / where), "--runs", str(tmp_path / where / "runs")]
        return [
            sys.executable,
            TINY,
            "reproduce",
            "table2",
            "--seeds",
            "2",
            *folders,
            "--device",
            "cpu",
            "--json",
        ]

    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command("whole"), check=True, capture_output=True, env=environment, timeout=120)
    rng = random.Random(0)
    for recorded in sorted(rng.choices(range(9), k=int(os.environ.get("ICECORE_KILLS", "1")))):
        process = subprocess.Popen(
            command("killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )
        while len(Records(tmp_path / "killed").read()) < recorded and process.poll() is None:
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 0.02))
        process.kill()
        assert process.wait() == -signal.SIGKILL, "killed before its end"
    subprocess.run(command("killed"), check=True, capture_output=True, env=environment, timeout=120)
    whole, killed = (Records(tmp_path / name).by_run() for name in ("whole", "killed"))
    assert len(Records(tmp_path / "killed").read()) == len(whole) == 12
    assert whole.keys() == killed.keys()
    for run, one in whole.items():
        assert (one["accuracy"], one["loss"]) == (killed[run]["accuracy"], killed[run]["loss"])


@pytest.mark.parametrize("scale", ["paper", "laptop"])
@pytest.mark.parametrize("preset", PRESETS)
def test_every_entry_has_its_cells_under_every_preset(scale, preset):
    for experiment in EXPERIMENTS.values():
        cells = experiment.at(scale, preset)
        assert len({cell.name for cell in cells}) == len(cells)
        if not experiment.needs_text:
            assert len({cell.made.setting for cell in cells}) <= len(cells)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "tabel1"], "did you mean 'table1'?"),
        (["reproduce", "fig5"], "write them with icecore sample RUN"),
        (["reproduce", "fig4", "--text", "nowhere"], "there is no folder nowhere; make it with icecore prepare"),
        (["reproduce", "table1", "--only", "nothing"], "no cell's label contains 'nothing'"),
        (["reproduce", "table1", "--preset", "papers"], "did you mean 'paper'?"),
        (["claims", "table1", "--preset", "unfilterd"], "did you mean 'unfiltered'?"),
        (["figure", "fig7", "--preset", "release"], "did you mean 'released'?"),
        (["claims", "fig9"], "unknown table or figure 'fig9'"),
    ],
)
def test_bad_input(capsys, arguments, message):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error


def test_a_run_is_looked_into_while_its_weights_are_at_hand(tmp_path):
    plain, analyzed = CELLS[:1], [dataclasses.replace(CELLS[0], is_analyzed=True)]
    assert sweep(tmp_path, tmp_path / "runs", cells=plain) == ["modular-addition, Random, seeds 0, 1"]
    before = (tmp_path / "runs.jsonl").read_text()
    assert sweep(tmp_path, tmp_path / "other runs", cells=plain + analyzed), "trained again: its weights are gone"
    assert (tmp_path / "runs.jsonl").read_text() == before, "a run keeps its first record"
    assert sweep(tmp_path, tmp_path / "other runs", cells=analyzed + plain) == []
    records = Records(tmp_path, name="inside.jsonl").read()
    assert [one["seed"] for one in records] == [0, 1]
    for one in records:
        assert set(one["variance"]) == {"all", "read", "scored", "last"}
        for shares in one["variance"].values():
            assert set(shares) == {"embedding", "block0.stream", "block1.stream", "final"}
            assert all(0 < neurons <= directions + 1e-9 <= 1 + 2e-9 for directions, neurons in shares.values())
    source = tmp_path / "merged"
    assert main(["results", "merge", str(tmp_path), "--results", str(source)]) == 0
    assert Records(source, name="inside.jsonl").read() == records


def test_a_cell_is_trained_with_its_preset(tmp_path):
    cell = Cell(CellName("modular-addition", "LSTM"), CELLS[0].task, LSTM(width=8), "all", "paper", SMALL)
    sweep(tmp_path, tmp_path / "runs", seeds=1, cells=[cell])
    (one,) = Records(tmp_path).read()
    assert one["setting"] == cell.setting
    assert one["config"]["optimization"]["lr"] == 5e-3, "the paper's rate of LSTMs; the scripts' is 1e-3"


def test_a_laptops_models_are_trained_each_in_its_own_way():
    recipe = recipe_for("needle")
    assert len({str(vars(recipe)[kind]) for kind in ("random", "normal", "narrow", "lstm", "embed")}) == 5
    for model, trainable, kind in (
        (LSTM(width=128), "all", "lstm"),
        (Transformer(width=128), "embeddings", "random"),
        (Transformer(width=8), "embeddings", "random"),
        (Transformer(width=128), "unembed", "random"),
        (Transformer(width=128), "embed", "embed"),
        (Transformer(width=128), "all", "normal"),
        (Transformer(width=8), "all", "narrow"),
    ):
        assert laptop_training("needle", model, trainable) == {"batch": recipe.batch, **vars(recipe)[kind].settings}
    assert laptop_training("needle", Transformer(width=128), "all").keys() == {"batch", "steps", "lr", "warmup_steps"}
    assert laptop_training("modular-addition", Transformer(width=128), "embeddings")["weight_decay"] == 0.3
    inits = [vars(small_task("imitation", preset))["target_init"] for preset in PRESETS]
    assert inits == ["released", "released", "released", "text"]
    assert {scale.value: str(folder) for scale, folder in DEFAULT_RESULTS.items()} == {
        "paper": "results",
        "laptop": "runs",
    }


def test_a_record_says_how_many_seeds_shared_its_seconds(tmp_path):
    sweep(tmp_path, tmp_path / "runs", seeds=2, cells=CELLS[:1])
    assert [one["seeds_at_once"] for one in Records(tmp_path).read()] == [2, 2]
