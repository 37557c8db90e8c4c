"""User-facing errors and warnings."""

import difflib
import functools
import signal
import typing
import unicodedata
from collections.abc import Iterable

MOST_NAMES, FEW_NAMES = 60, 8  # in one line: all of up to so many, else so many
MOST_LETTERS = 400  # of another library's message


class InputError(ValueError):
    """Invalid input. The message names the rule, the value and the way out.

    The command line prints it as one line, `error: ...`, and exits with 2.
    """


class Advice(UserWarning):
    """Valid input that is probably a mistake. The command line prints it as one line, `warning: ...`."""


class Interrupted(Exception):
    """A signal, after progress was saved. The command line exits with 128 and its number: 130 after Ctrl-C."""

    def __init__(self, message: str, number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.number = int(number)

    @property
    def exit_code(self) -> int:
        return 128 + self.number


def unknown_name(kind: str, name: str, known: Iterable[str], listed_by: str | None = None) -> InputError:
    """Return the error for an unknown name, with the closest known name.

    It lists the known names, of very many a few, unless `listed_by` says where they are listed.
    """
    known = list(dict.fromkeys(known))
    is_short = len(known) <= MOST_NAMES
    close = difflib.get_close_matches(name, known, n=1 if is_short else 3, cutoff=0.5)
    suggested = " or ".join(f"'{each}'" for each in close)
    hint = f"did you mean {suggested}? " if close else ""
    listed = ", ".join(known) if is_short else f"{', '.join(known[:FEW_NAMES])} and {len(known) - FEW_NAMES} more"
    return InputError(f"unknown {kind} '{name}': {hint}{listed_by or f'known: {listed}'}")


def require_choices(made: object) -> None:
    """Raise unless each `Literal` field of a dataclass has one of its values."""
    for name, known in choices_of(type(made)).items():
        if getattr(made, name) not in known:
            raise unknown_name(f"value of {name}", str(getattr(made, name)), known)


@functools.cache
def choices_of(declared: type) -> dict[str, tuple[str, ...]]:
    kinds = typing.get_type_hints(declared)
    return {name: typing.get_args(kind) for name, kind in kinds.items() if typing.get_origin(kind) is typing.Literal}


SETTING_TYPES: dict[object, tuple[str, tuple[type, ...]]] = {
    int: ("a whole number", (int,)),
    float: ("a number", (float, int)),
    bool: ("true or false", (bool,)),
    str: ("a text", (str,)),
}


def require_kind(name: str, value: object, kind: object) -> None:
    """Raise unless a setting has its declared type; a type that is not in SETTING_TYPES is for its class to check."""
    noun, allowed = SETTING_TYPES.get(kind, ("", ()))
    if noun and type(value) not in allowed:
        raise InputError(f"{name} must be {noun}, got {value!r}"[:200])


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether memory ran out. Torch raises its own RuntimeError class on a GPU, a plain one on a CPU."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or any(words in str(error) for words in ("allocate memory", "std::bad_alloc"))
    )


def in_one_line(error: BaseException) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]} ..."


def require(holds: bool, message: str) -> None:
    """Raise `InputError(message)` unless the rule holds."""
    if not holds:
        raise InputError(message)


UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")  # categories: control characters, lone surrogates, separators of lines
TURNS_TEXT = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # shows it in another order


def printable(text: str) -> str:
    """Return a text with control characters shown as `\\x1b`: names in files may hold commands of a terminal."""
    if text.isprintable():
        return text
    return "".join(map(shown_character, text))


def printable_line(text: str) -> str:
    """Return a text on one line, with control characters shown, line breaks too."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def shown_character(character: str) -> str:
    is_command = unicodedata.category(character) in UNPRINTABLE or character in TURNS_TEXT
    if not is_command or character in "\n\t":
        return character
    return character.encode("unicode_escape").decode("ascii")
