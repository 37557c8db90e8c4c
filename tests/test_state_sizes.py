"""The state of a body: how many numbers its next token reads of those before it."""

import pytest

from icecore.models import GRU, LSTM, DeltaNet, LinearAttention, Llama, Mamba, Transformer

SIZES = {
    Transformer(width=8, heads=2): 2 * 2 * 8 * 5,  # keys and values of 5 tokens in 2 layers
    Transformer(width=8, heads=2, attention="random"): 2 * 8 * 5,
    Transformer(width=8, heads=2, attention="prefix-sum"): 2 * 8,
    Llama(width=8, heads=4, heads_per_key=2): 2 * 2 * 4 * 5,
    Mamba(width=8, layers=4, state=3): 4 * 16 * (3 + 3),  # 3 states and the last 3 tokens per channel
    LinearAttention(width=8, heads=2): 2 * 2 * 4 * 4,  # a matrix per head
    DeltaNet(width=8, heads=2): 2 * 2 * 4 * 4,
    GRU(width=8): 2 * 8,
    LSTM(width=8): 2 * 2 * 8,
}


@pytest.mark.parametrize("model", SIZES, ids=str)
def test_the_state_has_as_many_numbers_as_counted_by_hand(model):
    assert model.state_size(5) == SIZES[model]
