"""`icecore reproduce bodies`: every body, task and trainable set has one cell, at both scales."""

import pytest

from icecore.paper import EXPERIMENTS
from icecore.paper.bodies import BODIES, FOUR, TRAINED, WIDTHS


@pytest.mark.parametrize("scale", ["paper", "laptop"])
def test_cells_are_all_bodies_and_no_two_are_the_same_run(scale: str):
    cells = EXPERIMENTS["bodies"].at(scale, "released")
    arms = 2 * len(BODIES) - 2  # two initializations, but for LSTM and GRU
    assert len(cells) == len(FOUR) * len(TRAINED) * len(WIDTHS) * arms + len(BODIES)
    few = [cell for cell in cells if cell.name.task == "parentheses" and cell.name.width == WIDTHS[0]]
    assert len({cell.made.setting for cell in few}) == len(few)
    assert {cell.made.model.name for cell in few} >= {"transformer", "llama", "mamba", "deltanet", "gru", "lstm"}
