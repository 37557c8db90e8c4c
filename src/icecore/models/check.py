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

from icecore.errors import InputError, in_one_line, require
from icecore.models.base import Model, ModelDims, Parameters, ParameterSpec, initialize, settings_of_model
from icecore.models.hf import HuggingFace, require_plain_logits
from icecore.user_code import load_class, reraise_user_error

ROWS = 3
MOST_TOKENS = 256  # per row
# Relative to the largest logit. Another order of operations changes less, looking ahead far more.
ROUNDING = 1e-4
UNSTABLE_SPECS = "has different specs each time: they must depend only on its settings, the task's dims and the seed"


def require_class(model_class: type[Model]) -> None:
    """Raise unless the class can be instantiated and named."""
    name = model_class.__name__
    require(dataclasses.is_dataclass(model_class), f"{name} is not a dataclass: put @dataclass(frozen=True) above it")
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
    """Return the model with these settings; raise unless it has valid specs and a config that can be saved."""
    name = model_class.__name__
    with reraise_user_error(f"{name} cannot be created"):
        model = model_class(**values)
    wanted = values.get("width", model.width)
    require(model.width == wanted, f"{name} must have the width it is given, {wanted}; its width is {model.width}")
    with reraise_user_error(f"specs of {name} failed"):
        specs = model.specs(dims)
    are_specs = isinstance(specs, dict) and all(
        isinstance(key, str) and isinstance(specs[key], ParameterSpec) for key in specs
    )
    require(
        are_specs and bool(specs),
        f"specs of {name} must return a dict of ParameterSpec by name, got {type(specs).__name__}",
    )
    for setting in settings_of_model(model_class):
        value = getattr(model, setting)
        try:
            json.dumps(value)
        except (TypeError, ValueError):
            raise InputError(
                f"{setting} of {name} must be a number, a string or a tuple of these, which a config can hold; "
                f"got {value!r}"
            ) from None
    return model


def require_model(model: Model, dims: ModelDims, length: int, may_look_ahead: bool) -> None:
    """Raise unless the model does what engines assume, on sequences of the task's length.

    It may look ahead only where a sequence's later tokens do not contain its answers.
    """
    require_class(type(model))
    name = type(model).__name__
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(dims.vocab_size, (ROWS, min(length, MOST_TOKENS)), generator=generator)
    if isinstance(model, HuggingFace):
        require_network_runs(model, dims, tokens)
    with reraise_user_error(f"{name} failed before training"), torch.no_grad():
        require_same_initialization(model, model, dims)
        parameters: Parameters = any_parameters(model, dims, generator)
        if not model.logits(parameters, tokens).isfinite().all():
            parameters = initialize(model, dims, 0)  # random values are invalid for some parameters
        check(model, parameters, tokens, dims, may_look_ahead)
        if isinstance(model, HuggingFace):
            require_memory_of_the_past(model, initialize(model, dims, 0), tokens, dims)
            require_plain_logits(model, parameters, tokens)
        require_same_when_training(model, parameters, tokens)
        require_same_when_loaded_again(model, parameters, tokens, dims)
    if model.vectorizes:
        with reraise_user_error(
            f"torch.func.vmap, which trains many seeds at once, cannot run {name}: set vectorizes = False"
        ):
            stacked = {key: torch.stack([value, value]).requires_grad_() for key, value in parameters.items()}
            torch.func.vmap(lambda one: model.logits(one, tokens))(stacked).sum().backward()


def require_network_runs(model: HuggingFace, dims: ModelDims, tokens: Tensor) -> None:
    """Raise unless transformers can run the network at its sizes, some of which its class may not fit together."""
    try:
        with torch.no_grad():
            model.logits(initialize(model, dims, 0), tokens)
    except InputError:
        raise
    except Exception as error:  # whatever the network's own code raises
        raise InputError(
            f"transformers' {model.architecture} does not run at these sizes ({in_one_line(error)}); take other sizes, "
            "or write a config.json, and give hf: and its folder"
        ) from None


def require_memory_of_the_past(model: Model, parameters: Parameters, tokens: Tensor, dims: ModelDims) -> None:
    """Raise if the initial network is not finite, or if its last output depends on the last token alone."""
    name = model.name
    logits = model.logits(parameters, tokens)
    require(
        bool(logits.isfinite().all()),
        f"{name} gives logits that are not finite at initialization: use another --init, or more layers",
    )
    other = tokens.clone()
    other[:, :-1] = (other[:, :-1] + 1) % dims.vocab_size
    depends = tokens.shape[1] == 1 or not torch.equal(logits[:, -1], model.logits(parameters, other)[:, -1])
    require(
        depends,
        f"{name} has no memory of the past: its last output does not depend on earlier tokens at initialization; use "
        "--init gaussian, or another network",
    )


def any_parameters(model: Model, dims: ModelDims, generator: torch.Generator) -> dict[str, Tensor]:
    """Return random values for every parameter, so that zero-initialized ones are exercised too."""
    return {
        name: torch.randn(spec.shape, generator=generator) / math.sqrt(max(1, spec.shape[-1] if spec.shape else 1))
        for name, spec in model.specs(dims).items()
    }


def require_same_initialization(model: Model, again: Model, dims: ModelDims) -> None:
    """Raise unless specs, and a seed's initial values, are the same each time."""
    shapes = [{name: (spec.shape, spec.role) for name, spec in each.specs(dims).items()} for each in (model, again)]
    first, second = (initialize(each, dims, 0) for each in (model, again))
    for name, value in first.items():
        require(
            bool(value.isfinite().all()),
            f"{name} of {type(model).__name__} is not finite at initialization: use another init or gain",
        )
    is_same = shapes[0] == shapes[1] and all(torch.equal(value, second[name]) for name, value in first.items())
    require(is_same, f"{type(model).__name__} {UNSTABLE_SPECS}")


def check(model: Model, parameters: Parameters, tokens: Tensor, dims: ModelDims, may_look_ahead: bool) -> None:
    name = type(model).__name__
    hidden = model.hidden(parameters, tokens)
    logits = model.unembed(parameters, hidden)
    for what, value, last in (("hidden", hidden, model.width), ("unembed", logits, dims.vocab_size)):
        wanted = (*tokens.shape, last)
        require(
            tuple(value.shape) == wanted,
            f"{what} of {name} returns shape {tuple(value.shape)} for {ROWS} sequences of {tokens.shape[1]} tokens, "
            f"expected {wanted}",
        )
        require(value.dtype == torch.float32, f"{what} of {name} returns {value.dtype}, expected torch.float32")
    require(bool(logits.isfinite().all()), f"{name} gives logits that are not finite before any training")
    again = model.logits(parameters, tokens)
    require(
        torch.equal(logits, again),
        f"{name} gives different logits for the same tokens: it must not draw random numbers",
    )
    alone = torch.cat([model.logits(parameters, row) for row in tokens.split(1)])
    require(
        not differ(logits, alone),
        f"{name} gives a sequence different logits in a batch than alone: its rows must not see each other",
    )
    require(
        may_look_ahead or not looks_ahead(model, parameters, tokens, logits, dims),
        f"{name} looks ahead, where the task's later tokens hold its answers: changing the last tokens changes "
        "earlier logits; let each position read only itself and earlier ones",
    )


def looks_ahead(model: Model, parameters: Parameters, tokens: Tensor, logits: Tensor, dims: ModelDims) -> bool:
    """Tell whether logits change when only later tokens do: the last one, or the second half."""
    for begin in {tokens.shape[1] // 2, tokens.shape[1] - 1}:
        other = tokens.clone()
        other[:, begin:] = (other[:, begin:] + 1) % dims.vocab_size
        if differ(logits[:, :begin], model.logits(parameters, other)[:, :begin]):
            return True
    return False


def require_same_when_training(model: Model, parameters: Parameters, tokens: Tensor) -> None:
    """Raise if logits change when gradients are required, as with dropout."""
    trained = {name: value.clone().requires_grad_() for name, value in parameters.items()}
    with torch.enable_grad():
        first, second = (model.logits(trained, tokens).detach() for _ in range(2))
    require(
        torch.equal(first, second) and not differ(first, model.logits(parameters, tokens)),
        f"{type(model).__name__} gives different logits in training: it must not draw random numbers, nor depend on "
        "whether gradients are required",
    )


def require_same_when_loaded_again(model: Model, parameters: Parameters, tokens: Tensor, dims: ModelDims) -> None:
    """Raise if the file draws random numbers when it is loaded: each process would have a different model."""
    if model.source_file is None or model.source_text is None:
        return
    with reseeded():
        again = load_class(f"{model.source_file}:{type(model).__name__}", Model, "model")
    if again.source_text == model.source_text:
        settings = {name: getattr(model, name) for name in settings_of_model(again)}
        reference = again(**settings)  # type: ignore[abstract]  # `again` is concrete
        require_same_initialization(model, reference, dims)
        require(
            not differ(model.logits(parameters, tokens), reference.logits(parameters, tokens)),
            f"{type(model).__name__} is a different model each time its file is loaded, which draws random numbers: "
            "make them parameters, with a ParameterSpec, so that they come from the run's seed",
        )


@contextlib.contextmanager
def reseeded() -> Iterator[None]:
    """Reseed the global random generators within the block, and restore them afterwards."""
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
