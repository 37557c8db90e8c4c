"""Memorization and imitation from training to claims: curves and bits are recorded, judged and drawn."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from made_up import cells_at, remember, remember_table3
from small_sweep import sweep

from icecore.cli import main
from icecore.models import ModelDims, Transformer
from icecore.paper import claims_of
from icecore.paper.fig6 import REPLICATION, TARGET_WIDTHS, Imitated, shape_claim
from icecore.paper.fig8 import last_tenth
from icecore.paper.table3 import PRINTED, ratio_claim
from icecore.store import Records
from icecore.sweeps import extras, runner
from icecore.sweeps.cells import Cell
from icecore.sweeps.names import CellName
from icecore.tasks import Memorization
from icecore.training import Population, scored_losses
from icecore.training.population import predict

TINY = Cell(
    CellName("memorization", "Random", 128),
    Memorization(keys=8),
    Transformer(width=8),
    "embeddings",
    "released",
    {"steps": 168, "batch": 16, "warmup_steps": 2, "lr": 1e-2},
)


def test_a_run_is_recorded_with_its_curve_and_its_bits(tmp_path):
    populations = runner.missing([TINY], 2, Records(tmp_path), "fp32", "cpu")
    arguments = (tmp_path / "runs", "cpu", "fp32", lambda _: lambda _: None, lambda *_: None)
    assert not runner.run_missing(populations, Records(tmp_path), *arguments)
    records = Records(tmp_path).read()
    assert [one["seed"] for one in records] == [0, 1]
    for one in records:
        assert one["curve"]["steps"] == list(range(2, 169, 2)), "84 points"
        assert one["curve"]["accuracy"][-1] == one["accuracy"]
        assert one["capacity"]["accuracy_bits"] == pytest.approx(one["accuracy"] * 64 * 3)
        assert one["capacity"]["trained_parameters"] == one["trained_parameters"] == 16 * 8 * 2 + 5 * 8
        known = (3 - one["loss"] / math.log(2)) * 64  # no less than this: an item knows at least 0 bits
        assert max(0.0, known) <= one["capacity"]["loss_bits"] < 64 * 3
    assert records[0]["curve"]["accuracy"] != records[1]["curve"]["accuracy"]
    assert main(["results", "merge", str(tmp_path), "--results", str(tmp_path / "merged")]) == 0
    assert Records(tmp_path / "merged").read() == records


def test_only_memorization_is_followed():
    assert extras.evaluate_every(Memorization(), 168_000) == 2_000
    (needle, *_) = [cell for cell in cells_at("table1") if "needle" in cell.label]
    assert extras.evaluate_every(needle.task, 10_000) is None


def test_losses_of_items_are_those_whose_mean_is_the_loss():
    task = Memorization(keys=6)
    population = Population(TINY.model, ModelDims(12, 5), (0, 1), "embeddings", torch.device("cpu"))
    batch = task.test_set()
    _, loss = predict(population, batch)
    whole, parts = (scored_losses(population, batch, rows) for rows in (None, 7))
    assert whole.shape == (2, 36)
    assert torch.allclose(whole.mean(dim=1), loss, atol=1e-6)
    assert torch.allclose(whole, parts, atol=1e-6)
    logits = TINY.model.logits(population.parameters(1), batch.tokens)[:, 1]
    expected = torch.nn.functional.cross_entropy(logits, batch.targets[:, 1], reduction="none")
    assert torch.allclose(whole[1], expected, atol=1e-5)


def test_the_papers_numbers_agree_with_each_other():
    for accuracy, memorized_bits, trained, of_each in PRINTED.values():
        assert memorized_bits == pytest.approx(accuracy / 100 * 262_144 * 9, rel=1e-4)
        assert of_each == pytest.approx(memorized_bits / trained, abs=0.005)
    assert all(tuple(values) == TARGET_WIDTHS for values in REPLICATION.values())


def test_presets_differ_in_rate_and_decay_and_the_body_in_its_count():
    rates = []
    for preset in ("released", "paper"):
        normal, random = cells_at("table3", "paper", preset)
        training = normal.config((0,), "bf16").training
        assert (training.steps, training.batch) == (168_000, 2**15)
        rates.append((training.lr, training.weight_decay))
        assert runner.parameters_of(normal) == runner.parameters_of(random) == 659_584
    assert rates == [(5e-3, 1e-4), (1e-3, 1e-3)]


def test_table3_beside_the_papers(tmp_path):
    empty = claims_of(["table3"], "paper", "released", Records(tmp_path))
    assert [claim.cell for claim in empty if claim.paper is not None and claim.verdict == "not run"] == [
        "Normal 128, accuracy",
        "Random 128, accuracy",
    ]
    remember_table3(tmp_path, 0.8054, 0.0453)
    claims = {claim.cell: claim for claim in claims_of(["table3"], "paper", "released", Records(tmp_path))}
    judged = {cell: claim for cell, claim in claims.items() if claim.paper is not None}
    assert len(judged) == 2 * 4 + 1
    verdicts = {cell: claim.verdict for cell, claim in judged.items()}
    assert [cell for cell, verdict in verdicts.items() if verdict == "reproduced"] == [
        "Normal 128, accuracy",
        "Random 128, accuracy",
    ]
    assert set(verdicts.values()) == {"reproduced", "follows"}, "two measurements, not nine"
    assert claims["Normal 128, bits"].ours == pytest.approx(1_900_177, abs=100)
    assert claims["Random 128, bits per parameter"].ours == pytest.approx(0.41, abs=0.005)
    assert claims["Random 128, accuracy"].baseline == pytest.approx(100 / 512)
    assert claims["Normal over Random, bits per parameter"].ours == pytest.approx(7.08, abs=0.01)
    by_loss = claims["Random 128, bits from loss per parameter, frozen included"]
    assert by_loss.ours == pytest.approx(106_876 / 2 / 659_584, rel=1e-3)
    assert by_loss.verdict == "nothing to compare with"


def test_table3_that_differs_says_so(tmp_path):
    remember_table3(tmp_path, 0.95, 0.0453)
    verdicts = {claim.cell: claim.verdict for claim in claims_of(["table3"], "paper", "released", Records(tmp_path))}
    assert (verdicts["Normal 128, accuracy"], verdicts["Random 128, accuracy"]) == ("differs", "reproduced")
    assert verdicts["Normal 128, trained parameters"] == verdicts["Normal 128, bits per parameter"] == "follows"


def test_a_laptop_compares_how_many_times_more(tmp_path):
    remember_table3(tmp_path, 0.9, 0.05, "laptop")
    claims = claims_of(["table3"], "laptop", "released", Records(tmp_path))
    assert {claim.verdict for claim in claims[:-1]} == {"nothing to compare with"}
    assert claims[-1].verdict == "reproduced"
    remember_table3(tmp_path / "other", 0.2, 0.05, "laptop")
    assert claims_of(["table3"], "laptop", "released", Records(tmp_path / "other"))[-1].verdict == "differs"


def test_figure_8_is_at_its_end(tmp_path):
    assert last_tenth({"steps": [1, 5, 9, 10], "accuracy": [0.1, 0.2, 0.3, 0.7]}) == pytest.approx(40)
    remember_table3(tmp_path, 0.8, 0.05)
    claims = claims_of(["fig8"], "paper", "released", Records(tmp_path))
    assert [(claim.ours, claim.verdict) for claim in claims] == [(0.0, "reproduced")] * 2


def remember_fig6(folder: Path, kl: dict[str, dict[int, float]], preset: str = "released") -> None:
    for cell in cells_at("fig6", "paper", preset):
        kind = "Normal" if cell.trainable == "all" else "Random"
        task: Any = cell.task
        baselines = {"uniform": 1.7, "mean_output": 1.2}
        for seed in range(5):
            remember(folder, cell, seed, 0.3, loss=kl[kind][task.target_width], loss_baselines=baselines)


def test_figure_6_beside_the_replication(tmp_path):
    remember_fig6(tmp_path, REPLICATION)
    claims = {claim.cell: claim for claim in claims_of(["fig6"], "paper", "released", Records(tmp_path))}
    assert len(claims) == 14 + 1 + 3
    point = claims["imitation of 32, Random 256x3, KL"]
    assert (point.ours, point.baseline, point.note) == (0.178, 1.2, "replication 0.178")
    shape = {cell: claim for cell, claim in claims.items() if claim.tolerance}
    assert {claim.verdict for claim in shape.values()} == {"reproduced"}
    assert shape["Random 256x3, KL at 32 over 12"].ours == pytest.approx(0.178 / 0.034)
    assert shape["Random over Normal 256x3, KL at 128"].ours == pytest.approx(1.070 / 0.121)


def test_a_flat_figure_6_differs(tmp_path):
    remember_fig6(tmp_path, {kind: dict.fromkeys(TARGET_WIDTHS, 0.1) for kind in REPLICATION}, "paper")
    claims = [claim for claim in claims_of(["fig6"], "paper", "paper", Records(tmp_path)) if claim.tolerance]
    assert [claim.verdict for claim in claims] == ["differs"] * 8, "two students"


def test_students_and_targets_of_figure_6():
    released, text = (cells_at("fig6", "paper", preset) for preset in ("released", "paper"))
    assert (len(released), len(text)) == (14, 28)
    settings = {cell.label: (cell.config((0,), "bf16").as_json(), cell.model) for cell in released + text}
    config, model = settings["imitation of 64, Normal 256x3"]
    assert config["task"]["settings"] == {
        "length": 40,
        "vocabulary": 512,
        "target_width": 64,
        "target_init": "released",
        "test_size": 4000,
    }
    assert model == Transformer(width=256, layers=3)
    config, model = settings["imitation of 4, Random 512x1"]
    assert config["task"]["settings"]["target_init"] == "text"
    assert model == Transformer(width=512, layers=1, init="paper")


@pytest.mark.parametrize(("name", "count"), [("fig8", 4), ("capacity", 8), ("fig6", 14)])
def test_figures_are_drawn_from_what_is_recorded(tmp_path, capsys, name, count):
    (tmp_path / "runs.jsonl").touch()
    assert main(["figure", name, "--results", str(tmp_path)]) == 2
    assert f"no runs of {name} are recorded" in capsys.readouterr().err
    remember_fig6(tmp_path, REPLICATION)
    remember_table3(tmp_path, 0.8, 0.05)
    remember_table3(tmp_path, 0.7, 0.04, preset="paper")
    files = [tmp_path / "a.png", tmp_path / "new" / "a.pdf"]
    flags = [part for file in files for part in ("--out", str(file))]
    assert main(["figure", name, "--results", str(tmp_path), *flags, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out.splitlines()[-1])["points"]) == count
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert files[1].read_bytes().startswith(b"%PDF")


def test_claims_on_the_command_line(tmp_path, capsys):
    remember_fig6(tmp_path, REPLICATION)
    remember_table3(tmp_path, 0.8054, 0.0453)
    at = ["--results", str(tmp_path)]
    assert main(["claims", "table3", "fig6", "fig8", *at, "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "| table3 | Normal 128, trained parameters | 659,584 | 659,584 | 5 |" in "\n".join(lines)
    assert any(line.endswith("| replication 1.070 |") for line in lines)
    assert main(["claims", "table3", "--grid", "--markdown", *at]) == 0
    row = "| Random 128 | 4.53 (4.53) | 106,876 (106,876) | 262,784 (262,784) | 0.41 (0.41) |"
    assert row in capsys.readouterr().out
    assert main(["claims", "table4", *at, "--json"]) == 0
    cells = [claim["cell"] for claim in json.loads(capsys.readouterr().out.splitlines()[-1])["claims"]]
    assert cells[-1] == "memorization, Random 128, neuron L2"


def test_what_is_missing_is_listed(tmp_path, capsys):
    at = ["--dry-run", "--results", str(tmp_path), "--device", "cpu"]
    assert main(["reproduce", "table3", "fig8", "--scale", "paper", *at]) == 0
    first, second, total, _ = capsys.readouterr().out.splitlines()
    assert first == "memorization, Normal 128, seeds 0, 1, 2: 504,000 seed-steps"
    assert second == "memorization, Random 128, seeds 0, 1, 2: 504,000 seed-steps"
    assert total.startswith("2 populations, 1,008,000 seed-steps"), "Figure 8 is Table 3's runs"
    assert main(["reproduce", "fig6", "--scale", "paper", "--preset", "paper", *at]) == 0
    assert "28 populations, 840,000 seed-steps" in capsys.readouterr().out


def test_recorded_bits_are_shared_among_all_parameters(tmp_path):
    short = {"steps": 2, "batch": 16, "warmup_steps": 1}
    tiny = replace(TINY, training=short)
    sweep(tmp_path, tmp_path / "runs", seeds=1, cells=[tiny])
    (one,) = Records(tmp_path).read()
    assert one["capacity"]["parameters"] == runner.parameters_of(tiny)
    assert one["capacity"]["parameters"] == one["trained_parameters"] + one["frozen_parameters"]


@pytest.mark.parametrize(("factor", "verdict"), [(1.19, "reproduced"), (1.21, "differs"), (0.79, "differs")])
def test_a_ratio_has_the_seeds_of_the_fewer_and_two_tenths_of_room(factor, verdict):
    def runs(bits_a_parameter: float, count: int) -> list[dict[str, Any]]:
        capacity = {"accuracy_bits_per_trained": bits_a_parameter}
        return [{"run": "a", "seed": seed, "capacity": capacity} for seed in range(count)]

    papers = PRINTED["Normal"][3] / PRINTED["Random"][3]
    claim = ratio_claim({"Normal": runs(factor * papers, 3), "Random": runs(1.0, 2)}, "paper")
    assert (claim.n, claim.verdict) == (2, verdict)
    few, many = Imitated("Random", "256x3", 4, (0.1,), {}), Imitated("Random", "256x3", 8, (0.4, 0.5, 0.6), {})
    assert {shape_claim("a ratio", *pair, 2.0, "a reason").n for pair in ((few, many), (many, few))} == {1}


def test_a_figure_8_that_falls_at_its_end_is_not_at_its_end(tmp_path):
    cell = cells_at("table3")[0]
    curve = {"steps": [100, 900, 1000], "accuracy": [0.1, 0.9, 0.5]}
    for seed in range(5):
        remember(tmp_path, cell, seed, 0.5, curve=curve, trained_parameters=1)
    (claim,) = [claim for claim in claims_of(["fig8"], "paper", "released", Records(tmp_path)) if claim.n]
    assert (claim.ours, claim.verdict) == (pytest.approx(-40), "differs")
