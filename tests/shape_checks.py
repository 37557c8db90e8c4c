"""ICECORE_CHECK_SHAPES=1: jaxtyping's import hook with a lighter decorator.

jaxtyping binds the arguments of every function that it decorates, and checks them twice. Here beartype checks them
once, and only functions whose annotations have shapes open a scope for the names of axes.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float too
usual = jaxtyping.jaxtyped


def light_jaxtyped(*, typechecker: Any) -> Callable[[Any], Any]:
    return functools.partial(checked, typechecker=typechecker)


def checked(made: Any, typechecker: Any) -> Any:
    """Return a function with its types and shapes checked; dataclasses and generators as jaxtyping does."""
    if not inspect.isfunction(made) or inspect.isgeneratorfunction(made):
        return usual(made, typechecker=typechecker)
    made.__annotations__ = {name: known(each, made.__globals__) for name, each in made.__annotations__.items()}
    typed = check(made)
    return usual(typed, typechecker=None) if has_shapes(made) else typed


def known(annotation: Any, names: dict[str, Any]) -> Any:
    """Return what an annotation in quotes names; Any if that is only imported for type checkers."""
    try:
        return eval(annotation, names) if isinstance(annotation, str) else annotation
    except NameError:
        return Any


def has_shapes(function: Callable[..., Any]) -> bool:
    return any("jaxtyping" in repr(annotation) for annotation in function.__annotations__.values())


def install(modules: list[str]) -> None:
    jaxtyping.jaxtyped = light_jaxtyped  # what the hook writes above every function
    jaxtyping.install_import_hook(modules, "shape_checks.check")
