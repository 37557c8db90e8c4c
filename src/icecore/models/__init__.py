"""The models. Each is a frozen dataclass of its sizes; its parameters are a dict, apart from it."""

from icecore.models.base import Model, Parameters, Positions, Sizes, Spec, count_parameters, initialize
from icecore.models.lstm import LSTM
from icecore.models.roles import trained_names
from icecore.models.transformer import Transformer

MODELS: dict[str, type[Model]] = {model.name: model for model in (Transformer, LSTM)}


def has_fast_path(model: Model) -> bool:
    """Whether the engine has code of its own for it; another model, a subclass too, computes as it is written."""
    return type(model) in (Transformer, LSTM)


__all__ = [
    "LSTM",
    "MODELS",
    "Model",
    "Parameters",
    "Positions",
    "Sizes",
    "Spec",
    "Transformer",
    "count_parameters",
    "has_fast_path",
    "initialize",
    "trained_names",
]
