"""Records of tracked runs: one per seed, with its measures at every snapshot."""

from collections.abc import Iterator, Sequence
from typing import Any

from icecore.store import Record, origin
from icecore.sweeps.tracking import Track, track
from icecore.sweeps.variance import OF_RUN
from icecore.training import TrainedRun

SHARED = ("before", "steps", "items", "null")  # of all seeds
Result = dict[str, Any]


def track_records(
    run: TrainedRun, records: Sequence[Record], items: int, beside: TrainedRun | None
) -> Iterator[Record]:
    """Yield one record per seed of a thaw: its measures, and those of full training beside it."""
    assert run.path is not None
    tracked = Track(run.path, run.config, run.population, run.config.seeds)
    if beside is not None:
        tracked = tracked.beside_run(beside.config, beside.population, str(beside.path))
    result = track(tracked, items)
    shared = {name: result[name] for name in SHARED}
    for record in records:
        own = {
            name: [shortened(point) for point in result.get(name, []) if point["seed"] == record["seed"]]
            for name in ("points", "beside")
        }
        yield {**{name: record[name] for name in OF_RUN}, **origin(), "track": {**shared, **own}}


def shortened(point: Result) -> Result:
    """Return a point with its measures and numbers; curves, maps and lists are left to `icecore track`."""
    return {name: value for name, value in point.items() if name == "measures" or not isinstance(value, dict | list)}


def joined(records: Sequence[Record]) -> Result:
    """Return the tracks of several seeds as one result of `track`."""
    each = [record["track"] for record in records]
    return {
        "task": records[0]["config"]["task"]["name"],
        "seeds": [record["seed"] for record in records],
        **{name: each[0][name] for name in SHARED},
        "points": [point for track in each for point in track["points"]],
        "beside": [point for track in each for point in track["beside"]],
    }
