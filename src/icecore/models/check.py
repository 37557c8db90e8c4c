"""Validate user-defined models before training."""

import contextlib
import dataclasses
import inspect
import json
import math
import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from icecore.errors import InputError, require
from icecore.models.base import Model, ModelDims, Parameters, ParameterSpec, initialize, settings_of_model
from icecore.user_code import load_class, reraise_user_error

ROWS = 3
MOST_TOKENS = 256  # of a row
# Of the largest logit: what is computed in another order differs by less, what looks ahead by far more.
ROUNDING = 1e-4
OTHER_SPECS = "has other specs each time: they must depend only on its settings, the task's dims and the seed"


def require_class(model_class: type[Model]) -> None:
    """Raise unless it can be made and named."""
    name = model_class.__name__
    require(dataclasses.is_dataclass(model_class), f"{name} is no dataclass: put @dataclass(frozen=True) above it")
    missing = sorted(getattr(model_class, "__abstractmethods__", ()))
    require(not inspect.isabstract(model_class), f"{name} must define {', '.join(missing)}")
    called = getattr(model_class, "name", None)
    require(
        isinstance(called, str) and bool(re.fullmatch(r"[A-Za-z0-9][\w-]*", called, re.ASCII)),
        f"{name} has no name of letters, digits, - and _: add  name: ClassVar[str] = '...'",
    )
    roles = getattr(model_class, "roles", None)
    are_names = isinstance(roles, tuple) and all(isinstance(role, str) for role in roles)
    require(are_names, f"{name} has no roles: add  roles: ClassVar[tuple[str, ...]] = (...)")
    require("width" in settings_of_model(model_class), f"{name} has no field  width: int")


def require_made(model_class: type[Model], values: dict[str, Any], dims: ModelDims) -> Model:
    """The model with these settings, of which its parameters can be listed and its config written."""
    name = model_class.__name__
    with reraise_user_error(f"{name} cannot be made"):
        model = model_class(**values)
    wanted = values.get("width", model.width)
    require(model.width == wanted, f"{name} made with width {wanted} has width {model.width}: let it keep what it gets")
    with reraise_user_error(f"the specs of {name} cannot be had"):
        specs = model.specs(dims)
    are_specs = isinstance(specs, dict) and all(
        isinstance(key, str) and isinstance(specs[key], ParameterSpec) for key in specs
    )
    require(
        are_specs and bool(specs),
        f"specs of {name} must give a dict of ParameterSpec by name, gives {type(specs).__name__}",
    )
    for setting in settings_of_model(model_class):
        value = getattr(model, setting)
        try:
            json.dumps(value)
        except (TypeError, ValueError):
            raise InputError(
                f"{setting} of {name} is {value!r}, which no config can hold: let it be a number, a text, or a tuple "
                "of these"
            ) from None
    return model


def require_model(model: Model, dims: ModelDims, length: int, may_look_ahead: bool) -> None:
    """Raise unless the model is what the engine takes it for, on sequences of the task's length.

    It may look ahead only where a sequence's later tokens do not hold its answers.
    """
    require_class(type(model))
    name = type(model).__name__
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(dims.vocab_size, (ROWS, min(length, MOST_TOKENS)), generator=generator)
    with reraise_user_error(f"{name} does not compute"), torch.no_grad():
        require_same_beginning(model, model, dims)
        parameters: Parameters = any_parameters(model, dims, generator)
        if not model.logits(parameters, tokens).isfinite().all():
            parameters = initialize(model, dims, 0)  # some must not have just any value
        check(model, parameters, tokens, dims, may_look_ahead)
        require_same_when_training(model, parameters, tokens)
        require_same_when_loaded_again(model, parameters, tokens, dims)
    if model.vectorizes:
        with reraise_user_error(
            f"torch.func.vmap, which trains many seeds at once, cannot run {name}: set vectorizes = False"
        ):
            stacked = {key: torch.stack([value, value]).requires_grad_() for key, value in parameters.items()}
            torch.func.vmap(lambda one: model.logits(one, tokens))(stacked).sum().backward()


def any_parameters(model: Model, dims: ModelDims, generator: torch.Generator) -> dict[str, Tensor]:
    """Return random values for every parameter, so that zero-initialized ones are exercised too."""
    return {
        name: torch.randn(spec.shape, generator=generator) / math.sqrt(max(1, spec.shape[-1] if spec.shape else 1))
        for name, spec in model.specs(dims).items()
    }


def require_same_beginning(model: Model, again: Model, dims: ModelDims) -> None:
    """Specs, and the values that one seed begins with, must be the same each time."""
    shapes = [{name: (spec.shape, spec.role) for name, spec in each.specs(dims).items()} for each in (model, again)]
    first, second = (initialize(each, dims, 0) for each in (model, again))
    is_same = shapes[0] == shapes[1] and all(torch.equal(value, second[name]) for name, value in first.items())
    require(is_same, f"{type(model).__name__} {OTHER_SPECS}")


def check(model: Model, parameters: Parameters, tokens: Tensor, dims: ModelDims, may_look_ahead: bool) -> None:
    name = type(model).__name__
    hidden = model.hidden(parameters, tokens)
    logits = model.unembed(parameters, hidden)
    for what, value, last in (("hidden", hidden, model.width), ("unembed", logits, dims.vocab_size)):
        wanted = (*tokens.shape, last)
        require(
            tuple(value.shape) == wanted,
            f"{what} of {name} gives the shape {tuple(value.shape)} for {ROWS} sequences of {tokens.shape[1]} tokens, "
            f"not {wanted}",
        )
        require(value.dtype == torch.float32, f"{what} of {name} gives {value.dtype}, not torch.float32")
    require(bool(logits.isfinite().all()), f"{name} gives logits that are not finite before any training")
    again = model.logits(parameters, tokens)
    require(
        torch.equal(logits, again), f"{name} gives other logits for the same tokens: it must not draw random numbers"
    )
    alone = torch.cat([model.logits(parameters, row) for row in tokens.split(1)])
    require(
        not differ(logits, alone),
        f"{name} gives a sequence other logits when others are beside it: its rows must not see each other",
    )
    require(
        may_look_ahead or not looks_ahead(model, parameters, tokens, logits, dims),
        f"{name} looks ahead, where the task's later tokens hold its answers: other tokens at the end change the "
        "logits before them; let each position see itself and what is before it alone",
    )


def looks_ahead(model: Model, parameters: Parameters, tokens: Tensor, logits: Tensor, dims: ModelDims) -> bool:
    """Whether logits change when only later tokens do: the last one, or the second half."""
    for begin in {tokens.shape[1] // 2, tokens.shape[1] - 1}:
        other = tokens.clone()
        other[:, begin:] = (other[:, begin:] + 1) % dims.vocab_size
        if differ(logits[:, :begin], model.logits(parameters, other)[:, :begin]):
            return True
    return False


def require_same_when_training(model: Model, parameters: Parameters, tokens: Tensor) -> None:
    """Dropout, say, shows only where gradients are wanted."""
    trained = {name: value.clone().requires_grad_() for name, value in parameters.items()}
    with torch.enable_grad():
        first, second = (model.logits(trained, tokens).detach() for _ in range(2))
    require(
        torch.equal(first, second) and not differ(first, model.logits(parameters, tokens)),
        f"{type(model).__name__} gives other logits when it trains: it must not draw random numbers, nor see whether "
        "gradients are wanted",
    )


def require_same_when_loaded_again(model: Model, parameters: Parameters, tokens: Tensor, dims: ModelDims) -> None:
    """A file that draws random numbers when it is loaded would be another model in every process."""
    if model.source_file is None or model.source_text is None:
        return
    with other_random_numbers():
        again = load_class(f"{model.source_file}:{type(model).__name__}", Model, "model")
    if again.source_text == model.source_text:
        settings = {name: getattr(model, name) for name in settings_of_model(again)}
        reference = again(**settings)  # type: ignore[abstract]  # its subclass is not
        require_same_beginning(model, reference, dims)
        require(
            not differ(model.logits(parameters, tokens), reference.logits(parameters, tokens)),
            f"{type(model).__name__} is another model each time its file is loaded, which draws random numbers: make "
            "them parameters, with a ParameterSpec, so that they come from the run's seed",
        )


@contextlib.contextmanager
def other_random_numbers() -> Iterator[None]:
    """While the block runs, what is drawn from the global generators is not what it was, nor will be."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        for seed in (torch.manual_seed, random.seed, np.random.seed):
            seed(20_241_116)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def differ(first: Tensor, second: Tensor) -> bool:
    """Tell whether any entry differs by more than rounding; NaN counts as different."""
    return first.numel() > 0 and not bool(((first - second).abs() <= ROUNDING * first.abs().max()).all())
