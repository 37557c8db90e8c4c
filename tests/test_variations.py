"""Cells with one thing changed: nothing else changes, and what comes of it stands beside what differs."""

from dataclasses import replace

import pytest
from made_up import cells_at, record

from icecore.paper import claims_of
from icecore.store import Records
from icecore.sweeps.cells import Cell
from icecore.training.identity import differences


def by_label(cells: list[Cell]) -> dict[str, Cell]:
    return {cell.label: cell for cell in cells}


def changes(cell: Cell, other: Cell) -> list[str]:
    return differences(cell.of_one_seed.as_json(), other.of_one_seed.as_json())


@pytest.mark.parametrize(
    ("name", "gpus", "expected"),
    [
        # 37,620 training items: 10 batches of 4,000 an epoch, the last one smaller, or 3 of 16,000.
        ("modular-addition, Normal 16", 4, ["batch 16000, not 4000", "steps 15000, not 50000"]),
        ("needle, E_token & U", 4, ["batch 4000, not 1000"]),
        ("parentheses, LSTM 1024", 4, ["batch 4000, not 1000"]),
        ("modular-addition, Normal 16", 2, ["batch 8000, not 4000", "steps 25000, not 50000"]),
        ("needle, E_token & U", 2, ["batch 2000, not 1000"]),
        ("memorization, Random 128", 2, ["batch 65536, not 32768", "steps 84000, not 168000"]),
    ],
)
def test_a_larger_batch_goes_as_often_through_a_finite_set(name, gpus, expected):
    usual = by_label(cells_at("table1") + cells_at("table2") + cells_at("table3"))[name]
    larger = by_label(cells_at("batches"))[f"{name}, batch x{gpus}"]
    assert changes(larger, usual) == expected


IN_STREAM = "task.test_items_in_stream True, not None"


@pytest.mark.parametrize(
    ("table", "name", "expected"),
    [
        ("table1", "modular-addition, Normal 16", ["batch 8000, not 4000", "steps 25000, not 50000"]),
        (
            "table1",
            "modular-addition, LSTM 1024",
            ["batch 8000, not 4000", "lr 0.005, not 0.001", "steps 25000, not 50000"],
        ),
        ("table1", "parentheses, LSTM 1024", ["batch 2000, not 1000", "lr 0.005, not 0.001", IN_STREAM]),
        ("table2", "needle, E_token & U", ["batch 2000, not 1000", IN_STREAM]),
        ("table3", "memorization, Random 128", ["batch 65536, not 32768", "steps 84000, not 168000"]),
        ("table9", "decimal-addition, Random 512, linearized", ["batch 2000, not 1000", IN_STREAM]),
        ("fig6", "imitation of 32, Random 256x3", ["batch 2000, not 1000"]),
    ],
)
def test_reconstructed_changes_data_batch_and_the_rate_of_lstms(table, name, expected):
    usual, reconstructed = (by_label(cells_at(table, "paper", each))[name] for each in ("released", "reconstructed"))
    assert changes(reconstructed, usual) == expected


def test_the_parts_of_reconstructed_add_up_to_it():
    """Unfiltered with twice the batch is the preset, except for LSTMs, whose rate is a part of its own."""
    whole = by_label(cells_at("table1", "paper", "reconstructed"))
    parts = by_label(cells_at("batches", "paper", "unfiltered"))
    for label, cell in whole.items():
        assert changes(parts[f"{label}, batch x2"], cell) == (["lr 0.001, not 0.005"] if "LSTM" in label else [])
    rates = by_label(cells_at("rates"))
    usual = by_label(cells_at("table1"))["needle, LSTM 1024"]
    assert changes(rates["needle, LSTM 1024, lr 0.005"], usual) == ["lr 0.005, not 0.001"]
    assert not any("LSTM" in cell.label for cell in cells_at("rates", "paper", "reconstructed"))


def test_cells_of_one_name_are_varied_once():
    """Tables 1 and 4 share runs; the variation measures activations where one of them does."""
    labels = [cell.label for cell in cells_at("batches")]
    assert len(set(labels)) == len(labels)
    assert by_label(cells_at("batches"))["modular-addition, Normal 1024, batch x2"].is_analyzed


def test_97_tokens_are_gone_through_as_often_as_199():
    usual = by_label(cells_at("table4"))["modular-addition, Normal 1024"]
    fewer = by_label(cells_at("modulus"))["modular-addition, Normal 1024, modulus 97"]
    # 8,938 items: 3 batches of 4,000.
    assert changes(fewer, usual) == ["steps 15000, not 50000", "task.modulus 97, not 199"]
    assert fewer.is_analyzed


def test_sinusoidal_positions_change_nothing_else():
    usual = by_label(cells_at("table2"))
    for cell in cells_at("positions"):
        changed = changes(cell, usual[str(replace(cell.name, variant=""))])
        assert changed == ["model.position_init sinusoidal, not None"]


def test_shares_with_a_change_stand_beside_those_that_differ(tmp_path):
    """The paper's number on the one cell that differs is a hint, no reason."""
    usual = by_label(cells_at("table4"))["modular-addition, Normal 1024"]
    fewer = by_label(cells_at("modulus"))["modular-addition, Normal 1024, modulus 97"]
    for cell, of_embedding, count in ((usual, 0.6, 5), (fewer, 0.45, 3)):  # the paper has 42.0
        shares = {"embedding": (of_embedding, 0.038), "block0.stream": (0.5, 0.016), "final": (0.138, 0.034)}
        for seed in range(count):
            config = cell.config((seed,), "bf16")
            made = {"setting": cell.setting, "seed": seed, "config": config.as_json(), "variance": {"read": shares}}
            Records(tmp_path, name="inside.jsonl").append([record(config.run_id, **made)])
    claims = claims_of(["table4"], "paper", "released", Records(tmp_path))
    notes = {claim.cell: claim.explanation for claim in claims if claim.verdict == "differs"}
    assert notes == {
        "modular-addition, Normal 1024, PC Emb": "unexplained; with modulus 97: 45.0, 3 seeds",
        "modular-addition, Normal 1024, PC L1": "unexplained; with modulus 97: 50.0, 3 seeds",
    }
