"""Claims of the paper's text: each measured from records, and never without its runs."""

import json

from made_up import cells_at, record_of

from icecore.paper import EXPERIMENTS, claims_of
from icecore.store import Records
from icecore.sweeps.names import CellName


def text_claims(folder, preset="released"):
    return {one.cell: one for one in claims_of(["text"], "paper", preset, Records(folder))}


def test_without_runs_nothing_is_claimed_and_a_command_says_how_to_get_it(tmp_path):
    claims = text_claims(tmp_path)
    assert {(one.ours, one.verdict) for one in claims.values()} == {(None, "not run")}
    assert all(one.tolerance and one.reason for one in claims.values())
    frozen = claims["frozen LSTM fails: needle"]
    assert frozen.note.endswith(
        "icecore reproduce text --scale paper --seeds 5 --only 'needle, Random 1024, frozen LSTM'"
    )
    wide = claims["language: Random 4096 as Normal 256"]
    assert "reproduce fig4" in wide.note


def test_the_frozen_lstm_trains_its_embeddings_alone():
    for cell in cells_at("text"):
        config = cell.config((0,), "bf16").as_json()
        assert (config["model"]["name"], config["trainable"]) == ("lstm", "embeddings")
    assert CellName("needle", "Random", 1024, variant="frozen LSTM") in {cell.name for cell in cells_at("text")}
    wide = [cell.name.size for cell in EXPERIMENTS["fig4"].at("paper", "released") if (cell.name.width or 0) > 1024]
    assert wide == ["2048x2", "4096x2"]


def test_one_failed_restart_is_not_consistent(tmp_path):
    cells = {cell.label: cell for cell in cells_at("table1")}
    for task, worst in (("needle", 1.0), ("decimal-addition", 0.3), ("modular-addition", 0.5)):
        own = [worst, *[1.0] * 9] if task != "modular-addition" else [worst] * 10
        Records(tmp_path).append(record_of(cells[f"{task}, Random 1024"], *one) for one in enumerate(own))
    claims = text_claims(tmp_path)
    verdicts = {
        task: claims[f"consistent restarts: {task}"].verdict
        for task in ("needle", "decimal-addition", "modular-addition", "parentheses")
    }
    assert verdicts == {
        "needle": "reproduced",
        "decimal-addition": "undecided",
        "modular-addition": "differs",
        "parentheses": "not run",
    }


def test_a_variant_that_solves_every_task_differs(tmp_path):
    for cell in cells_at("table2"):
        accuracy = 1.0 if cell.name.kind == "E only" or cell.name.task == "needle" else 0.5
        Records(tmp_path).append(record_of(cell, seed, accuracy) for seed in range(5))
    claims = text_claims(tmp_path)
    assert claims["variant fails: E only, worst task"].verdict == "differs"
    assert claims["variant fails: U only, worst task"].shown_verdict == "reproduced (weak)"
    assert claims["variant fails: U only, best task"].verdict == "differs", "needle has 100"


def test_stored_analyses_are_read_by_seed_and_only_for_their_settings(tmp_path):
    folder = tmp_path / "analyses"
    folder.mkdir()
    metrics = {"circularity": 0.7, "gradient_symmetricity": 0.4, "distance_irrelevance": 0.9}
    control = {"circularity": 0.05, "gradient_symmetricity": 0.9, "distance_irrelevance": 1.0}
    for seed in range(5):
        made = {"analyses": {"modular": {"trained": metrics, "untrained": control}}}
        (folder / f"modular-addition-1024-modular-seed{seed}.json").write_text(json.dumps(made))
    claims = text_claims(tmp_path)
    found = {key: claims[f"circles: {key}"] for key in ("circularity", "gradient symmetricity")}
    assert (found["circularity"].ours, found["circularity"].shown_verdict) == (0.7, "reproduced")
    assert (found["gradient symmetricity"].ours, found["gradient symmetricity"].verdict) == (0.4, "differs")
    assert found["gradient symmetricity"].is_weak, "the untrained body has .9"
    other = text_claims(tmp_path, "reconstructed")
    assert other["circles: circularity"].verdict == "not run"


def test_ten_directions_have_a_value_per_seed(tmp_path):
    folder = tmp_path / "analyses"
    folder.mkdir()
    for name, kept in (("", 0.1), ("-causal-seed1", 0.2), ("-causal-seed2", 0.3)):
        keep = {"mode": "keep", "counts": [1, 10]}
        curves = [keep | {"basis": basis, "accuracy": [0.0, kept]} for basis in ("directions", "untrained", "random")]
        (folder / f"needle-1024{name}.json").write_text(json.dumps({"analyses": {"causal": {"curves": curves}}}))
    claim = text_claims(tmp_path)["ten directions enough: needle"]
    assert claim.null is not None
    assert (claim.values, claim.null.value, claim.verdict) == ((10.0, 20.0, 30.0), 20.0, "undecided")


def test_entropies_come_from_the_targets_of_figure_6(tmp_path):
    for cell in cells_at("fig6"):
        if cell.trainable == "embeddings":
            Records(tmp_path).append([record_of(cell, 0, 0.5) | {"loss": 0.1, "loss_baselines": {"uniform": 3.288}}])
    claim = text_claims(tmp_path)["entropy of imitation targets"]
    assert (round(claim.ours or 0, 2), claim.n, claim.verdict) == (2.95, 7, "reproduced")
