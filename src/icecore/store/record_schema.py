"""The schema of stored results and records: a damaged one is refused or skipped, not half read."""

import sys
from collections.abc import Callable
from typing import Any

PRECISIONS = ("fp32", "tf32", "bf16")  # most exact first; as in `training.Precision`, which imports torch
CAPACITIES = tuple(f"{of}_bits{each}" for of in ("accuracy", "loss") for each in ("", "_per_trained", "_per_parameter"))


def is_number(value: Any) -> bool:
    """Tell whether it is a finite number that a float holds; JSON may have longer integers."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def is_share(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1


def is_duration(value: Any) -> bool:
    return is_number(value) and value >= 0


def is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def is_positive_count(value: Any) -> bool:
    return type(value) is int and value >= 1


def has_shares(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_share, value.values()))


def has_numbers(value: Any, names: tuple[str, ...] = ()) -> bool:
    return isinstance(value, dict) and all(map(is_number, value.values())) and all(name in value for name in names)


def is_curve(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    steps, accuracy = value.get("steps"), value.get("accuracy")
    if not isinstance(steps, list) or not isinstance(accuracy, list):
        return False
    return len(steps) == len(accuracy) > 0 and all(map(is_number, steps)) and all(map(is_share, accuracy))


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


def has_coordinates(value: Any) -> bool:
    """Tell whether it has a task's coordinates in theory: numbers or None, and the name of a class."""
    names = ("sensitivity", "most_sensitive", "rounds", "symbols")
    return isinstance(value, dict) and all(value.get(name) is None or is_number(value[name]) for name in names)


def is_variance(value: Any) -> bool:
    """Tell whether it has shares of directions and neurons, by positions and activation."""
    places = [place for each in value.values() for place in each.values()] if has_dicts(value) else []
    return bool(places) and all(
        isinstance(place, list | tuple) and len(place) == 2 and all(map(is_number, place)) for place in places
    )


def is_track(value: Any) -> bool:
    """Tell whether it has the measures of a thaw at its snapshots."""
    if not isinstance(value, dict) or not is_count(value.get("before")) or not isinstance(value.get("null"), str):
        return False
    steps, points, beside = (value.get(name) for name in ("steps", "points", "beside"))
    if not isinstance(steps, list) or not isinstance(points, list) or not isinstance(beside, list):
        return False
    return bool(points) and all(map(is_count, steps)) and all(map(is_tracked_point, [*points, *beside]))


def is_tracked_point(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(is_count(value.get(name)) for name in ("seed", "step"))
        and all(is_share(value.get(name)) for name in ("accuracy", "accuracy_before"))
        and isinstance(above := value.get("above_baseline"), dict)
        and all(isinstance(above.get(when), bool) for when in ("before", "after"))
        and has_dicts(value.get("measures"))
        and all(map(is_measure, value["measures"].values()))
    )


def is_measure(value: dict[str, Any]) -> bool:
    """Tell whether it has a number beside its references; one that cannot tell has no score."""
    numbers = [value.get(name) for name in ("here", "refined", "replaced")]
    score = value.get("score")
    return (
        all(map(is_number, numbers)) and isinstance(value.get("causal"), bool) and (score is None or is_number(score))
    )


def has_dicts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, dict) for each in value.values())


NUMBERS: dict[str, Callable[[Any], bool]] = {  # ranges of one seed's numbers
    **dict.fromkeys(("accuracy", "train_accuracy", "exact_match", "digit_accuracy"), is_share),
    **dict.fromkeys(("loss", "best_loss", "loss_per_byte"), is_number),
    "best_step": is_positive_count,
}
SHARED: dict[str, Callable[[Any], bool]] = {  # by all seeds that trained together
    **dict.fromkeys(("steps", "trained_parameters", "threads"), is_positive_count),
    "frozen_parameters": is_count,
    "seconds": is_duration,
    "baselines": has_shares,
    "loss_baselines": has_numbers,
    **dict.fromkeys(("device", "commit", "source", "command", "weights"), lambda value: isinstance(value, str)),
    "versions": lambda value: isinstance(value, dict),
}
VALUE_TESTS: dict[str, Callable[[Any], bool]] = {
    **NUMBERS,
    **SHARED,
    "setting": lambda value: isinstance(value, str),
    "seeds_at_once": is_positive_count,
    "seed": is_count,
    "config": is_config,
    "capacity": lambda value: has_numbers(value, CAPACITIES),
    "curve": is_curve,
    "text": is_of_text,
    "coordinates": has_coordinates,
    "lazy_rule": has_shares,
    "variance": is_variance,
    "track": is_track,
}
REQUIRED = ("setting", "seed", "accuracy", "device", "config")
REQUIRED_OF_RUNS = {  # beside baselines; records of activations have `variance` instead, those of thaws `track`
    "imitation": ("loss",),
    "memorization": ("trained_parameters",),
    "language": ("best_loss", "text"),
}


def is_valid(record: dict[str, Any]) -> bool:
    """Tell whether a record has all that reports read, in range."""
    if not all(name in record for name in REQUIRED):
        return False
    if not all(test(record[name]) for name, test in VALUE_TESTS.items() if name in record):
        return False
    task, settings = record["config"]["task"], record["config"]["model"]["settings"]
    if "variance" not in record and "track" not in record:
        wanted = ("baselines", *REQUIRED_OF_RUNS.get(task["name"], ()))
        if not all(name in record for name in wanted):
            return False
    if task["name"] != "language":
        return True
    has_sizes = all(type(settings.get(name)) is int for name in ("width", "layers"))
    return has_sizes and isinstance(task["settings"].get("digest"), str)


def has_numbers_in_range(record: dict[str, Any]) -> bool:
    """Tell whether every number of a record that has a range is in it."""
    return all(is_right(record[name]) for name, is_right in NUMBERS.items() if name in record)


def problem_of_record(record: dict[str, Any]) -> str | None:
    """Return what is wrong with the values of a record, or None; its config's values are not looked at."""
    for name, is_right in VALUE_TESTS.items():
        if name in record and name != "config" and not is_right(record[name]):
            return f"{name} is {record[name]!r}"[:200]
    seeds = (record.get("config") or {}).get("seeds")
    return None if seeds in (None, [record.get("seed")]) else f"its seed is {record.get('seed')}, its config's {seeds}"


# Keys of every result.
REQUIRED_OF_RESULTS = (
    *("accuracy", "loss", "seeds", "baselines", "trained_parameters", "frozen_parameters", "steps", "seconds"),
    "device",
)


def problem_of_result(result: Any) -> str | None:
    """Return what is wrong with a run's result, or None. Its lists have one entry per seed."""
    if not isinstance(result, dict):
        return "it is not a JSON object"
    missing = [name for name in REQUIRED_OF_RESULTS if name not in result]
    if missing:
        return f"it has no {', '.join(missing)}"
    seeds = result["seeds"]
    if not isinstance(seeds, list) or not all(map(is_count, seeds)):
        return "its seeds are not a list of whole numbers"
    for name, value in result.items():
        if name in SHARED:
            if not SHARED[name](value):
                return f"{name} is {value!r}"[:200]
        elif name in NUMBERS or isinstance(value, list):
            if not isinstance(value, list) or len(value) != len(seeds):
                return f"{name} is not a list with one entry per seed"
            if not all(map(NUMBERS.get(name, is_number), value)) and name != "seeds":
                return f"{name} has a value out of its range"
    return None
