"""Code that came with a run: executed only if this user trained with it here, or passes --trust."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from icecore.errors import InputError, require
from icecore.store.reading import read_regular
from icecore.store.trusted import digest_of_code, is_trusted, remember_code
from icecore.training.identity import COPIES, name_of
from icecore.user_code import MOST_BYTES, class_in

Kind = TypeVar("Kind")
CODE_KEYS = ("class", "file")  # in a config's task or model: it is a user's class


@dataclass(frozen=True)
class RunCode:
    """Text of a run's task.py or model.py that may be executed, and where it lies."""

    text: str
    path: Path

    def class_of(self, value: Mapping[str, Any], base: type[Kind], kind: str) -> type[Kind]:
        """Execute the text that was checked, not the file, and return the config's class."""
        require(isinstance(value.get("class"), str), f"the {kind} has no class")
        return class_in(self.text, str(self.path), value["class"], base, kind)


def code_of_run(config: Mapping[str, Any], folder: Path, trust: bool) -> dict[str, RunCode]:
    """Return the run's own code by kind; raise before executing anything unless all of it is trusted.

    Only the copies in the folder are read: the path in `file` may lead anywhere.
    """
    kinds = [kind for kind in COPIES if any(key in config[kind] for key in CODE_KEYS)]
    if kinds:
        require_id(folder, name_of(config))
    return {kind: checked_code(config[kind].get("source"), kind, folder / COPIES[kind], trust) for kind in kinds}


def checked_code(source: object, kind: str, path: Path, trust: bool) -> RunCode:
    text = text_of_copy(path, kind)
    digest = digest_of_code(text)
    if source != digest[:12]:
        raise InputError(f"{path} is not the {kind} of the run: the file has changed; restore it, or train again")
    if not trust and not is_trusted(digest):
        raise InputError(
            f"{path} is Python code that came with the run, and you did not train with it here (SHA-256 {digest}): "
            f"read it, with less {shlex.quote(str(path))}; if you trust it, add --trust (in Python: trust=True)"
        )
    return RunCode(text, path)


def text_of_copy(path: Path, kind: str) -> str:
    """Return the text of a copy of user code, which must be a file in the run's folder and no link."""
    try:
        text = read_regular(path, MOST_BYTES, follow=False).decode("utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}, the {kind} of the run; put it back there") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not the {kind} of the run: it is not text; restore it, or train again") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")  # as when the user's file was read


def require_copies(folder: Path, texts: Mapping[str, str | None]) -> None:
    """Raise unless the folder's copies are these texts."""
    for kind, text in texts.items():
        if text is not None and text_of_copy(folder / COPIES[kind], kind) != text:
            raise InputError(
                f"{folder / COPIES[kind]} is not the {kind} of the run: the file has changed; restore it, or use "
                "--overwrite"
            )


def remember_texts(texts: Mapping[str, str | None]) -> None:
    """Note that this user trains with these texts here, so that the run loads without --trust."""
    for text in texts.values():
        if text is not None:
            remember_code(text)


def require_id(folder: Path, run_id: str) -> None:
    """Raise unless a run's folder has the name of its config."""
    name = folder.resolve().name
    require(
        name == run_id,
        f"{folder} is not the run of its config: the folder must be called {run_id}; rename it, if only its name "
        "was changed",
    )
