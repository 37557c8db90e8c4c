"""Agreement of two results of one run: equal within the rounding errors of two machines."""

import math
from collections.abc import Iterator
from typing import Any

# Machines sum float32 numbers in different orders; training then moves losses by about 1e-7 to 1e-5 of their value.
RELATIVE, ABSOLUTE = 1e-4, 1e-6
TOLERANCE = f"numbers agree within {RELATIVE:g} of their value, or within {ABSOLUTE:g}"
EXACT = ("config",)  # parts that identify the run
MOST_NAMED = 3


def disagreements(first: Any, second: Any) -> list[str]:
    """Name what differs, with both values: "loss 0.5 and 0.7"."""
    return list(found_in(first, second, ""))


def in_one_clause(found: list[str]) -> str:
    rest = f", and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return f"{', '.join(found[:MOST_NAMED])}{rest} ({TOLERANCE})"


def found_in(first: Any, second: Any, name: str) -> Iterator[str]:
    if isinstance(first, dict) and isinstance(second, dict):
        for key in dict.fromkeys([*first, *second]):
            inner = f"{name}.{key}" if name else str(key)
            if key not in first or key not in second:
                yield f"{inner} in one of them only"
            else:
                yield from found_in(first[key], second[key], inner)
    elif isinstance(first, list | tuple) and isinstance(second, list | tuple) and len(first) == len(second):
        for index, (one, other) in enumerate(zip(first, second, strict=True)):
            yield from found_in(one, other, f"{name}[{index}]")
    elif not is_same(first, second, name.split(".")[0] in EXACT):
        yield f"{name} {first!r} and {second!r}"


def is_same(first: Any, second: Any, is_exact: bool) -> bool:
    are_floats = isinstance(first, float) and isinstance(second, float)
    if is_exact or not are_floats:
        return first == second
    return math.isclose(first, second, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
