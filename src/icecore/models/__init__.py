"""Models: frozen dataclasses of settings. The parameters are a separate dict."""

from icecore.errors import unknown_name
from icecore.models.base import (
    Model,
    ModelDims,
    Parameters,
    ParameterSpec,
    Positions,
    count_parameters,
    device_of,
    hidden_with,
    initialize,
    model_fields,
    names_of_role,
    parameter_of_role,
    same_forward_pass,
    settings_of_model,
    traced,
)
from icecore.models.deltanet import DeltaNet
from icecore.models.gru import GRU
from icecore.models.hf import PREFIX, HuggingFace
from icecore.models.initializers import Constant, Initializer, Normal, Orthogonal, Sinusoidal, Uniform
from icecore.models.linear_attention import LinearAttention
from icecore.models.llama import Llama
from icecore.models.lstm import LSTM
from icecore.models.mamba import Mamba
from icecore.models.roles import HALVES, Half, names_of_half, trained_counts, trained_names
from icecore.models.transformer import Transformer
from icecore.user_code import is_file, load_class

SHIPPED: tuple[type[Model], ...] = (Transformer, LSTM, GRU, Llama, Mamba, LinearAttention, DeltaNet)
MODELS: dict[str, type[Model]] = {model.name: model for model in (*SHIPPED, HuggingFace)}  # users may add theirs


def find_model(name: str) -> type[Model]:
    """Return the model class of this name, or the class of `FILE.py:CLASS`."""
    if name.startswith(PREFIX):
        return HuggingFace
    if is_file(name):
        return load_class(name, Model, "model")
    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    return MODELS[name]


def is_shipped(model: Model) -> bool:
    """Tell whether the model is one of ours; a user's subclass is not."""
    return type(model) in SHIPPED


__all__ = [
    "GRU",
    "HALVES",
    "LSTM",
    "MODELS",
    "SHIPPED",
    "Constant",
    "DeltaNet",
    "Half",
    "HuggingFace",
    "Initializer",
    "LinearAttention",
    "Llama",
    "Mamba",
    "Model",
    "ModelDims",
    "Normal",
    "Orthogonal",
    "ParameterSpec",
    "Parameters",
    "Positions",
    "Sinusoidal",
    "Transformer",
    "Uniform",
    "count_parameters",
    "device_of",
    "find_model",
    "hidden_with",
    "initialize",
    "is_shipped",
    "model_fields",
    "names_of_half",
    "names_of_role",
    "parameter_of_role",
    "same_forward_pass",
    "settings_of_model",
    "traced",
    "trained_counts",
    "trained_names",
]
