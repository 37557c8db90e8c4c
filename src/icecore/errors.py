"""The one exception that means: the user can mend this."""

import difflib
import functools
import typing
from collections.abc import Iterable


class InputError(ValueError):
    """A value from outside broke a rule. The message names the rule, the value and the way out.

    The command line prints it as one line, `error: ...`, and exits with 2.
    """


class Advice(UserWarning):
    """Something will work, and hardly as it was meant. The command line prints it as one line, `warning: ...`."""


class Interrupted(Exception):
    """Ctrl-C came, and what was done so far was saved first. The command line exits with 130."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that does not exist, with the nearest names that do."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return InputError(f"unknown {kind} '{name}': {hint}known: {', '.join(known)}")


def require_choices(made: object) -> None:
    """Raise unless each field of a dataclass that is declared as a `Literal` has one of its values."""
    for name, known in choices_of(type(made)).items():
        if getattr(made, name) not in known:
            raise unknown_name(f"value of {name}", str(getattr(made, name)), known)


@functools.cache
def choices_of(declared: type) -> dict[str, tuple[str, ...]]:
    kinds = typing.get_type_hints(declared)
    return {name: typing.get_args(kind) for name, kind in kinds.items() if typing.get_origin(kind) is typing.Literal}


def is_out_of_memory(error: BaseException) -> bool:
    """Also torch's: on a GPU it is a RuntimeError of a class of its own, on a CPU one like any other."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or any(words in str(error) for words in ("allocate memory", "std::bad_alloc"))
    )


def in_one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def require(holds: bool, message: str) -> None:
    """Raise `InputError(message)` unless the rule holds."""
    if not holds:
        raise InputError(message)
