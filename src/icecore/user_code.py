"""User-defined classes and functions, from `FILE.py:NAME`, and the errors they raise."""

import ast
import contextlib
import hashlib
import importlib.util
import inspect
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from icecore.errors import InputError, Interrupted, in_one_line, is_out_of_memory, unknown_name

Kind = TypeVar("Kind")
MOST_BYTES = 2**22  # size of a user's file
RENAMED = {"floors": "baselines", "loss_floors": "loss_baselines"}  # task methods of older versions


@contextlib.contextmanager
def reraise_user_error(what: str) -> Iterator[None]:
    """Raise `InputError` for whatever user code raises."""
    try:
        yield
    except (InputError, Interrupted, BrokenPipeError):
        raise
    except (Exception, SystemExit) as error:
        if is_out_of_memory(error):
            raise InputError(f"{what}: out of memory; take a smaller size") from error
        raise InputError(f"{what} ({with_line(error)}); fix it and try again") from error


def with_line(error: BaseException) -> str:
    """Describe an exception in one line, with the last line of user code in its trace."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not is_of_a_library(Path(frame.filename))]
    place = f", in {Path(own[-1].filename).name} line {own[-1].lineno}" if own else ""
    return in_one_line(error) + place


def is_of_a_library(path: Path) -> bool:
    return "site-packages" in path.parts or path.is_relative_to(Path(__file__).parent)


def is_file(name: str) -> bool:
    """Tell whether a name on the command line is a user's file, not a built-in."""
    return name.endswith(".py") or ".py:" in name


def load_class(spec: str, base: type[Kind], noun: str) -> type[Kind]:
    """Return the class of `FILE.py:CLASS`; without `:CLASS`, the only one of its kind in the file."""
    file, _, class_name = spec.partition(":")
    return class_in(text_of_file(file, "CLASS"), file, class_name, base, noun)


def class_in(text: str, file: str, class_name: str, base: type[Kind], noun: str) -> type[Kind]:
    """Execute the text of a file and return the class of this name, or the only one of its kind.

    Set its `source_file` and `source_text`.
    """
    classes = defined_in(executed(text, file, noun), inspect.isclass)
    if not class_name:
        found = [name for name, value in classes.items() if issubclass(value, base)]
        if len(found) != 1:
            known = ", ".join(found) or "none"
            raise InputError(f"name the class: {file}:CLASS ({noun}s in the file: {known})")
        class_name = found[0]
    if class_name not in classes:
        raise unknown_name(f"class in {file}", class_name, classes)
    chosen = classes[class_name]
    if not issubclass(chosen, base):
        raise InputError(f"{class_name} in {file} must be a subclass of icecore.{noun}s.{base.__name__}")
    for old, new in RENAMED.items():
        if old in vars(chosen):
            raise InputError(f"{class_name} in {file} defines {old}, which is called {new} now: rename it")
    chosen.source_file, chosen.source_text = file, text  # type: ignore[attr-defined]
    return chosen


def load_function(spec: str, noun: str) -> tuple[Callable[..., Any], str]:
    """Return the function of `FILE.py:FUNCTION` and the file's text; without `:FUNCTION`, the only one there."""
    file, _, name = spec.partition(":")
    text = text_of_file(file, "FUNCTION")
    functions = defined_in(executed(text, file, noun), inspect.isfunction)
    if not name:
        if len(functions) != 1:
            raise InputError(f"name the function: {file}:FUNCTION (in the file: {', '.join(functions) or 'none'})")
        (name,) = functions
    if name not in functions:
        raise unknown_name(f"function in {file}", name, functions)
    return functions[name], text


def defined_in(module: types.ModuleType, is_wanted: Callable[[Any], bool]) -> dict[str, Any]:
    """Return the objects that a module defines, not those it imports, by name."""
    return {
        name: value
        for name, value in vars(module).items()
        if is_wanted(value) and value.__module__ == module.__name__ and not name.startswith("__")
    }


def text_of_file(file: str, part: str) -> str:
    """Return the text of a user's file."""
    path = Path(file)
    if not path.is_file():
        raise InputError(f"there is no file {file}; give FILE.py:{part}")
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise InputError(f"{file} has {size:,} bytes, and a user's file has at most {MOST_BYTES:,}")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise InputError(f"{file} does not import ({in_one_line(error)}); fix it and try again") from error


def executed(text: str, file: str, noun: str) -> types.ModuleType:
    """Execute the text of a file and return its module."""
    path = Path(file)
    # A unique name, so that classes of two files never mix.
    module_name = f"icecore_user_{noun}_{path.stem}_{abs(hash(path.resolve()))}"
    module = types.ModuleType(module_name)
    module.__file__ = str(path)
    sys.modules[module_name] = module  # dataclasses and get_type_hints look modules up by name
    try:
        require_one_file(path, text, noun)
        exec(compile(text, str(path), "exec"), vars(module))
    except BaseException as error:
        del sys.modules[module_name]
        if isinstance(error, KeyboardInterrupt | InputError):
            raise
        raise InputError(f"{path} does not import ({in_one_line(error)}); fix it and try again") from error
    return module


def require_one_file(path: Path, text: str, noun: str) -> None:
    """Raise if a file imports from its own folder: a run saves and hashes only the file."""
    for node in ast.walk(ast.parse(text)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
        for root in {name.split(".")[0] for name in names}:
            beside = [path.parent / f"{root}.py", path.parent / root]
            if root != "icecore" and any(each.exists() for each in beside) and not is_installed(root, path.parent):
                raise InputError(
                    f"{path} imports {root} from its folder, which runs do not save: a {noun} must be one file; put "
                    f"both into one, or install {root} as a package"
                )


def is_installed(module: str, here: Path) -> bool:
    """Tell whether a module is found outside of this folder."""
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return False
    places = [] if found is None else [found.origin, *(found.submodule_search_locations or [])]
    return any(each is not None and not Path(each).resolve().is_relative_to(here.resolve()) for each in places)


def hash_of(text: str) -> str:
    """Return a hash of a user's file; another text is another task or model."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]
