"""Figure 4 and Table 5 from training to claims, on a text made by hand."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from prepared_texts import made_by_hand

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.models import Transformer
from icecore.paper import EXPERIMENTS, claims_of
from icecore.paper.evidence import Evidence
from icecore.paper.scales import SCALES, LanguageScale
from icecore.paper.table5 import TABLE5
from icecore.store import INSIDE, Records
from icecore.sweeps import extras
from icecore.sweeps.cells import Cell
from icecore.tasks import Language, Needle
from icecore.training import RunFolder
from icecore.training.presets import preset_model, preset_training


@pytest.fixture
def text(tmp_path) -> Path:
    """Tokens that follow one another, so that there is something to learn."""
    tokens = np.arange(3000) % 7
    return made_by_hand(tmp_path / "text", tokens, tokens[:200], 7)


@pytest.fixture
def tiny(monkeypatch) -> None:
    scale = LanguageScale("nowhere", (8, 16), 16, 70, 2, 3.5, 5, 1e-2)
    monkeypatch.setitem(SCALES, "laptop", replace(SCALES["laptop"], language=scale))


def cells_on(text: Path, name: str = "fig4") -> list[Cell]:
    """Make the paper's cells on this text, in short windows."""
    scale = SCALES["paper"]
    small = replace(scale, language=replace(scale.language, folder=str(text), window=70))
    make = EXPERIMENTS[name].cells
    assert make is not None
    return [cell.made for cell in make(small, "released")]


def test_the_papers_cells(text):
    cells = cells_on(text)
    assert len(cells) == 2 * 2 * 6 + 2, "and Random at 2048 and 4096"
    assert {(cell.model.width, cell.trainable) for cell in cells} >= {(32, "all"), (1024, "embeddings")}
    assert {cell.setting for cell in cells_on(text, "table5")} <= {cell.setting for cell in cells}
    steps = cells[0].config((0,), "fp32").training.steps
    assert steps == pytest.approx(20 * 3000 / (20 * 70), abs=1)
    assert SCALES["paper"].language.heads == 8


def test_without_a_text_it_says_how_to_make_one(tmp_path):
    with pytest.raises(InputError, match=r"there is no folder .*; make it with icecore prepare"):
        _ = EXPERIMENTS["fig4"].at("paper", "released", tmp_path / "none")[0].made


@pytest.mark.usefixtures("tiny")
def test_from_training_to_claims_and_figure(text, tmp_path, capsys):
    flags = ["--text", str(text), "--seeds", "2", "--device", "cpu", "--results", str(tmp_path / "kept")]
    assert main(["reproduce", "fig4", "table5", *flags, "--runs", str(tmp_path / "runs"), "--json"]) == 0
    claims = {claim["cell"]: claim for claim in json.loads(capsys.readouterr().out.splitlines()[-1])["claims"]}
    losses = {name: claim for name, claim in claims.items() if claim["name"] == "fig4"}
    assert len(losses) == 8
    best = losses["language, Normal 16x2, best validation loss"]
    assert (best["n"], best["note"]) == (2, "within 3.5 epochs of 3,000 tokens")
    assert 0 < best["ours"] < math.log(7), "better than to know nothing"
    assert best["baseline"] < 0.01, "pairs say it all"
    shares = [claim for claim in claims.values() if claim["name"] == "table5"]
    assert len(shares) == 20
    assert all(0 < claim["ours"] <= 100 and claim["n"] == 2 for claim in shares)
    records = Records(tmp_path / "kept").by_run().values()
    assert all(record["best_loss"] <= record["loss"] + 1e-9 for record in records)
    assert all(record["loss_per_byte"] == pytest.approx(record["loss"]) for record in records), "a token is a byte"
    assert len(Records(tmp_path / "kept", name=INSIDE).by_run()) == 4
    out = tmp_path / "fig4.png"
    figure = ["figure", "fig4", "--scale", "laptop", "--results", str(tmp_path / "kept"), "--out", str(out), "--json"]
    assert main(figure) == 0
    points = json.loads(capsys.readouterr().out.splitlines()[-1])["points"]
    assert {(point["kind"], point["width"], point["layers"]) for point in points} == {
        (kind, width, layers) for kind in ("Random", "Normal") for width in (8, 16) for layers in (2, 4)
    }
    assert out.read_bytes()[:4] == b"\x89PNG"


def test_the_end_of_training_counts_for_the_best_loss_too(text):
    settings: dict[str, Any] = {"steps": 13, "batch": 4, "lr": 1e-2, "warmup_steps": 2, "evaluate_every": 10}
    result = ice.train(Language(str(text), window=70), Transformer(width=16, heads=2), "all", **settings).result
    assert (result["best_loss"], result["best_step"]) == (result["loss"], [13])


def test_five_epochs_are_five_with_any_batch(text):
    task, model = Language(str(text), window=70), Transformer(width=16)
    steps = {batch: preset_training(task, model, "released", batch).steps for batch in (None, 20, 5)}
    assert steps == {None: 11, 20: 11, 5: 43}, "of 3,000 tokens in windows of 70"


def test_a_text_may_lie_elsewhere_when_its_run_goes_on(text, tmp_path):
    settings: dict[str, Any] = {"steps": 4, "batch": 4, "warmup_steps": 2, "out": tmp_path / "runs"}
    model = Transformer(width=16, heads=2)
    runs = ice.train(Language(str(text), window=70), model, **settings)
    assert runs.path is not None
    (runs.path / "result.json").unlink()
    moved = tmp_path / "moved"
    text.rename(moved)
    again = ice.train(Language(str(moved), window=70), model, resume=True, **settings)
    assert again.path == runs.path
    assert RunFolder(runs.path).complete_config().task == Language(str(moved), window=70)


def test_a_text_is_found_from_the_folders_above_its_run(text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text.rename(tmp_path / "data")
    settings: dict[str, Any] = {"steps": 4, "batch": 4, "warmup_steps": 2, "out": tmp_path / "runs"}
    runs = ice.train(Language("data", window=70), Transformer(width=16, heads=2), **settings)
    monkeypatch.chdir("/")
    assert main(["evaluate", str(runs.path)]) == 0
    assert "nats per byte" in capsys.readouterr().out


def test_shapes_are_judged_at_the_papers_scale(text, tmp_path):
    losses = {"Normal 32x2": 2.7, "Random 512x2": 2.64, "Normal 512x2": 1.6, "Random 512x4": 2.6}
    for cell in cells_on(text):
        name = cell.label.removeprefix("language, ")
        if name in losses:
            about = {
                "text": {"tokens": {"train": 3000}, "epochs": 20},
                "baselines": {},
                "accuracy": 0.3,
                "device": "cpu",
            }
            for seed in range(5):
                config = cell.config((seed,), "bf16")
                made = {"setting": cell.setting, "seed": seed, "config": config.as_json(), "best_loss": losses[name]}
                Records(tmp_path).append([{"run": config.run_id, **made, **about}])
    claims = claims_of(["fig4"], "paper", "released", Records(tmp_path))
    assert {claim.cell: claim.verdict for claim in claims if "minus" in claim.cell} == {
        "loss of Random 512x2 minus Normal 32x2": "reproduced",
        "loss of Random 512x2 minus Normal 512x2": "reproduced",
        "loss of Random 512x4 minus Random 512x2": "differs",
    }
    nothing = claims_of(["fig4", "table5"], "paper", "released", Records(tmp_path / "empty"))
    assert {claim.verdict for claim in nothing} == {"not run"}


def test_a_laptops_text_is_made_and_of_all_what_has_none_is_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = ["--device", "cpu", "--results", "kept", "--dry-run"]
    assert main(["reproduce", "all", "--scale", "paper", *flags]) == 0
    out, err = capsys.readouterr()
    assert "without data/tinystories, these are left out: table5, fig4, parts" in err
    assert "needle, Random 1024" in out
    assert "language" not in out
    assert main(["reproduce", "table5", *flags]) == 0
    out, err = capsys.readouterr()
    assert "prepared in data/stories" in err
    assert "language, Random 64x4" in out


def test_the_best_loss_is_among_all_that_were_measured_before_a_kill_too(text, tmp_path, monkeypatch):
    settings: dict[str, Any] = {"steps": 12, "batch": 4, "lr": 1.0, "schedule": "constant", "warmup_steps": 8}
    settings |= {"evaluate_every": 1, "checkpoint_every": 12}
    task, model = Language(str(text), window=70), Transformer(width=16, heads=2)
    whole_run = ice.train(task, model, "all", out=tmp_path / "whole", **settings)
    assert whole_run.path is not None
    measured = [row["test_loss"][0] for row in RunFolder(whole_run.path).metrics() if "test_loss" in row]
    best, step = whole_run.result["best_loss"][0], whole_run.result["best_step"][0]
    assert best == min(measured) < measured[-1], "at such a rate it gets worse again"
    assert measured[step - 1] == best

    def killed(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "finish", killed)
        with pytest.raises(KeyboardInterrupt):
            ice.train(task, model, "all", out=tmp_path / "killed", **settings)
    again = ice.train(task, model, "all", out=tmp_path / "killed", resume=True, **settings)
    assert (again.result["best_loss"], again.result["best_step"]) == ([best], [step])


def test_a_loss_of_a_sample_of_the_windows_is_not_the_best_loss(text, monkeypatch):
    monkeypatch.setattr("icecore.training.progress.EVALUATION_SHARE", 1e-9)
    more = {"steps": 20, "batch": 4, "lr": 3.0, "warmup_steps": 1}  # so fast that the end is not the best
    run = ice.train(Language(str(text), window=8), ice.Transformer(width=8, heads=2), **more)
    sampled = [row for row in run.metrics if "items" in row]
    assert len(sampled) >= 5
    assert min(row["test_loss"] for row in sampled) < run.result["loss"]
    assert (run.result["best_loss"], run.result["best_step"]) == (run.result["loss"], [20])


def test_a_point_of_figure_4_is_the_best_loss(text, tmp_path):
    cell = cells_on(text)[0]
    config = cell.config((0,), "bf16")
    made = {"setting": cell.setting, "seed": 0, "config": config.as_json(), "best_loss": 2.5, "loss": 3.0}
    about = {"text": {"tokens": {"train": 3000}, "epochs": 20}, "baselines": {}, "accuracy": 0.3, "device": "cpu"}
    Records(tmp_path).append([{"run": config.run_id, **made, **about}])
    (claim,) = [claim for claim in claims_of(["fig4"], "paper", "released", Records(tmp_path)) if claim.n]
    assert claim.ours == 2.5


def test_language_models_with_other_parts_trained_are_no_points_of_figure_4(text, tmp_path):
    cell = cells_on(text)[0]
    about = {"text": {"tokens": {"train": 3000}, "epochs": 20}, "baselines": {}, "accuracy": 0.3, "device": "cpu"}
    for trainable, loss in (("embeddings", 2.5), ("unembed", 4.5)):
        one = replace(cell, trainable=trainable)
        config = one.config((0,), "bf16")
        made = {"setting": one.setting, "seed": 0, "config": config.as_json(), "best_loss": loss}
        Records(tmp_path).append([{"run": config.run_id, **made, **about}])
    (claim,) = [claim for claim in claims_of(["fig4"], "paper", "released", Records(tmp_path)) if claim.n]
    assert (claim.ours, claim.n) == (2.5, 1)


def test_table_5_is_of_four_layers():
    def run(layers: int, share: float) -> dict[str, Any]:
        model = {"name": "transformer", "settings": {"init": "released", "width": 512, "layers": layers}}
        task = {"name": "language", "settings": {"digest": "a"}}
        shares = {"embedding": (share, share)}
        config = {"task": task, "model": model, "trainable": "all"}
        return {"run": "a", "seed": 0, "config": config, "variance": {"read": shares}}

    evidence = Evidence(Records(Path("nowhere")))
    object.__setattr__(evidence, "all_inside", [run(4, 0.3), run(2, 0.9), run(2, 0.9)])
    first = TABLE5.claims_of(evidence)[0]
    assert (first.cell, first.ours, first.n) == ("language, Normal 512, PC Emb", pytest.approx(30), 1)


def test_the_papers_language_models(text):
    assert SCALES["paper"].language.window == Language().window == 512
    for cell in cells_on(text):
        config = cell.config((0,), "bf16")
        training = config.training
        assert (training.lr, training.weight_decay, training.batch) == (6e-4, 0.1, 20)  # SOURCE: D.3
        assert config.dims.n_positions == 1024
    models = [cast(Any, cell.model) for cell in cells_on(text, "table5")]
    assert {(model.layers, model.width) for model in models} == {(4, 512)}
    assert preset_model(Language(), Transformer, "released") == {
        "width": 512,
        "layers": 4,
        "heads": 8,
        "init": "released",
    }


def test_the_validation_loss_is_measured_twenty_times():
    assert extras.evaluate_every(Language(), 400) == 20
    assert extras.evaluate_every(Language(), 3) == 1
    assert extras.evaluate_every(Needle(), 400) is None
