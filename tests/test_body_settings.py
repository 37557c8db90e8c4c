"""Impossible settings of bodies are refused. Here no types are checked: wrong ones are the point."""

import pytest

from icecore.errors import InputError
from icecore.models import SHIPPED, DeltaNet, LinearAttention

NEW = [model for model in SHIPPED if model.name not in ("transformer", "lstm")]


@pytest.mark.parametrize("model", NEW, ids=lambda model: model.name)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 0}, "width must be at least 1, got 0"),
        ({"layers": 2.5}, "layers must be a whole number, got 2.5"),
        ({"init": "librar"}, "unknown value of init 'librar': did you mean 'library'"),
    ],
)
def test_impossible_settings_are_refused(model, settings, message):
    with pytest.raises(InputError, match=message):
        model(**settings)


def test_impossible_settings_of_linear_attention_are_refused():
    for model in (LinearAttention, DeltaNet):
        with pytest.raises(InputError, match="multiple of heads, got width 10 with 4 heads"):
            model(width=10)
    with pytest.raises(InputError, match="unknown value of decay 'heads': did you mean 'head'"):
        LinearAttention(decay="heads")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="rotary positions need heads of an even width"):
        LinearAttention(width=12, rotary=True)
