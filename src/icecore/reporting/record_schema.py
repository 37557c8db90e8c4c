"""The schema of stored records: a damaged record is skipped, not half read."""

import math
from collections.abc import Callable
from typing import Any

from icecore.store.records import Record

PRECISIONS = ("fp32", "tf32", "bf16")  # most exact first; as in `training.Precision`, which imports torch
CAPACITIES = tuple(f"{of}_bits{each}" for of in ("accuracy", "loss") for each in ("", "_per_trained", "_per_parameter"))


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def has_numbers(value: Any, names: tuple[str, ...] = ()) -> bool:
    return isinstance(value, dict) and all(map(is_number, value.values())) and all(name in value for name in names)


def is_curve(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    steps, accuracy = value.get("steps"), value.get("accuracy")
    if not isinstance(steps, list) or not isinstance(accuracy, list):
        return False
    return len(steps) == len(accuracy) > 0 and all(map(is_number, steps + accuracy))


def is_config(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("precision") not in PRECISIONS:
        return False
    parts = [value.get("task"), value.get("model")]
    are_named = all(
        isinstance(part, dict) and isinstance(part.get("name"), str) and isinstance(part.get("settings"), dict)
        for part in parts
    )
    return are_named and (isinstance(value.get("trainable"), str) or isinstance(value.get("phases"), list))


def is_of_text(value: Any) -> bool:
    """Tell whether it has the tokens and epochs of a language model's training."""
    return isinstance(value, dict) and has_numbers(value.get("tokens"), ("train",)) and is_number(value.get("epochs"))


def is_variance(value: Any) -> bool:
    """Tell whether it has shares of directions and neurons, by positions and activation."""
    places = [place for each in value.values() for place in each.values()] if has_dicts(value) else []
    return bool(places) and all(
        isinstance(place, list | tuple) and len(place) == 2 and all(map(is_number, place)) for place in places
    )


def has_dicts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, dict) for each in value.values())


KINDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        (
            *("accuracy", "train_accuracy", "exact_match", "loss", "best_loss", "loss_per_byte"),
            *("seconds", "steps", "trained_parameters", "frozen_parameters"),
        ),
        is_number,
    ),
    **dict.fromkeys(("setting", "device"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("baselines", "loss_baselines"), has_numbers),
    "seeds_at_once": lambda value: type(value) is int and value >= 1,
    "seed": lambda value: type(value) is int,
    "config": is_config,
    "capacity": lambda value: has_numbers(value, CAPACITIES),
    "curve": is_curve,
    "text": is_of_text,
    "variance": is_variance,
}
REQUIRED = ("setting", "seed", "accuracy", "device", "config")
REQUIRED_OF_RUNS = {  # beside baselines; records of activations have `variance` instead
    "imitation": ("loss",),
    "memorization": ("trained_parameters",),
    "language": ("best_loss", "text"),
}


def is_valid(record: Record) -> bool:
    if not all(name in record for name in REQUIRED):
        return False
    if not all(test(record[name]) for name, test in KINDS.items() if name in record):
        return False
    task, settings = record["config"]["task"], record["config"]["model"]["settings"]
    if "variance" not in record:
        wanted = ("baselines", *REQUIRED_OF_RUNS.get(task["name"], ()))
        if not all(name in record for name in wanted):
            return False
    if task["name"] != "language":
        return True
    has_sizes = all(type(settings.get(name)) is int for name in ("width", "layers"))
    return has_sizes and isinstance(task["settings"].get("digest"), str)
