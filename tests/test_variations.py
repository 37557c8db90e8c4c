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
    ("name", "expected"),
    [
        # 37,620 training items: 10 batches of 4,000 an epoch, the last one smaller, or 3 of 16,000.
        ("modular-addition, Normal 16", ["batch 16000, not 4000", "steps 15000, not 50000"]),
        ("needle, E_token & U", ["batch 4000, not 1000"]),
        ("parentheses, LSTM 1024", ["batch 4000, not 1000"]),
    ],
)
def test_a_larger_batch_goes_as_often_through_a_finite_set(name, expected):
    usual = by_label(cells_at("table1") + cells_at("table2"))[name]
    larger = by_label(cells_at("batches"))[f"{name}, batch x4"]
    assert changes(larger, usual) == expected


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


@pytest.mark.parametrize("seeds", [2, 3])
def test_shares_with_a_change_stand_beside_those_that_differ(tmp_path, seeds):
    """Three seeds with the paper's number are a ground for a reason, two are not."""
    usual = by_label(cells_at("table4"))["modular-addition, Normal 1024"]
    fewer = by_label(cells_at("modulus"))["modular-addition, Normal 1024, modulus 97"]
    for cell, of_embedding, count in ((usual, 0.6, 3), (fewer, 0.45, seeds)):  # the paper has 42.0
        shares = {"embedding": (of_embedding, 0.038), "block0.stream": (0.5, 0.016), "final": (0.138, 0.034)}
        for seed in range(count):
            config = cell.config((seed,), "bf16")
            made = {"setting": cell.setting, "seed": seed, "config": config.as_json(), "variance": {"read": shares}}
            Records(tmp_path, name="inside.jsonl").append([record(config.run_id, **made)])
    claims = claims_of(["table4"], "paper", "released", Records(tmp_path))
    notes = {claim.cell: claim.explanation for claim in claims if claim.verdict == "differs"}
    assert notes == {
        "modular-addition, Normal 1024, PC Emb": ("" if seeds == 3 else "unexplained; ")
        + f"with modulus 97: 45.0, {seeds} seeds",
        "modular-addition, Normal 1024, PC L1": f"unexplained; with modulus 97: 50.0, {seeds} seeds",
    }
