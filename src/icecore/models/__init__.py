"""The models. Each is a frozen dataclass of its sizes; its parameters are a dict, apart from it."""

from icecore.errors import unknown_name
from icecore.models.base import (
    Model,
    Parameters,
    Positions,
    Sizes,
    Spec,
    computes_as,
    count_parameters,
    initialize,
    model_fields,
    settings_of_model,
)
from icecore.models.lstm import LSTM
from icecore.models.roles import trained_names
from icecore.models.transformer import Transformer
from icecore.own_files import is_file, load_class

SHIPPED: tuple[type[Model], ...] = (Transformer, LSTM)
MODELS: dict[str, type[Model]] = {model.name: model for model in SHIPPED}  # users may add theirs


def find_model(name: str) -> type[Model]:
    """The model class of this name, or the class of `FILE.py:CLASS`."""
    if is_file(name):
        return load_class(name, Model, "model")
    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    return MODELS[name]


def has_fast_path(model: Model) -> bool:
    """Whether the engine has code of its own for it; a model that computes otherwise does so as it is written."""
    return any(computes_as(model, each) for each in SHIPPED)


def is_shipped(model: Model) -> bool:
    """Whether it is one of ours as it is, and no user's."""
    return type(model) in SHIPPED


__all__ = [
    "LSTM",
    "MODELS",
    "SHIPPED",
    "Model",
    "Parameters",
    "Positions",
    "Sizes",
    "Spec",
    "Transformer",
    "computes_as",
    "count_parameters",
    "find_model",
    "has_fast_path",
    "initialize",
    "is_shipped",
    "model_fields",
    "settings_of_model",
    "trained_names",
]
