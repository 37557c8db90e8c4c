"""Does a user's model keep its contract? What breaks it is told before a number comes of it."""

import dataclasses
import re

import torch
from torch import Tensor

from icecore.errors import InputError, require
from icecore.models.base import Model, Parameters, Sizes, initialize

ROWS, LENGTH = 2, 8
# One position's output may be summed in another order when others change; a model that looks ahead changes by far more.
ROUNDING = 1e-4


def require_model(model: Model, sizes: Sizes, may_look_ahead: bool) -> None:
    """Raise unless the model is what the engine takes it for.

    It may look ahead only where a sequence's later tokens do not hold its answers.
    """
    name = type(model).__name__
    require(
        isinstance(getattr(model, "name", None), str)
        and bool(re.fullmatch(r"[A-Za-z0-9][\w-]*", model.name, re.ASCII)),
        f"{name} has no name of letters, digits, - and _: add  name: ClassVar[str] = '...'",
    )
    require(dataclasses.is_dataclass(model), f"{name} is no dataclass: put @dataclass(frozen=True) above it")
    require(isinstance(getattr(model, "width", None), int), f"{name} has no field  width: int")
    try:
        check(model, sizes, may_look_ahead)
    except InputError:
        raise
    except Exception as error:  # the user's code: whatever it raises is for the user
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"{name} does not compute ({reason}); mend it and try again") from error


@torch.no_grad()
def check(model: Model, sizes: Sizes, may_look_ahead: bool) -> None:
    name, length = type(model).__name__, min(LENGTH, sizes.positions)
    parameters = initialize(model, sizes, 0)
    tokens = torch.randint(sizes.vocab_size, (ROWS, length), generator=torch.Generator().manual_seed(0))
    hidden = model.hidden(parameters, tokens)
    logits = model.unembed(parameters, hidden)
    for what, value, wanted in (("hidden", hidden, model.width), ("unembed", logits, sizes.vocab_size)):
        require(
            tuple(value.shape) == (ROWS, length, wanted),
            f"{what} of {name} gives the shape {tuple(value.shape)} for {ROWS} sequences of {length} tokens, not "
            f"{(ROWS, length, wanted)}",
        )
    require(bool(logits.isfinite().all()), f"{name} gives logits that are not finite before any training")
    again = model.logits(parameters, tokens)
    require(
        torch.equal(logits, again), f"{name} gives other logits for the same tokens: it must not draw random numbers"
    )
    require(
        may_look_ahead or not looks_ahead(model, parameters, tokens, sizes),
        f"{name} looks ahead, where the task's later tokens hold its answers: another last token changes the logits "
        "before it; let each position see itself and what is before it alone",
    )


def looks_ahead(model: Model, parameters: Parameters, tokens: Tensor, sizes: Sizes) -> bool:
    other = tokens.clone()
    other[:, -1] = (other[:, -1] + 1) % sizes.vocab_size
    before, after = (model.logits(parameters, each)[:, :-1] for each in (tokens, other))
    return bool(((before - after).abs() > ROUNDING * before.abs().max().clamp_min(1)).any())
