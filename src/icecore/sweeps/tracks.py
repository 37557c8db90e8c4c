"""Records of tracked runs: one per seed, with its measures at every snapshot."""

from collections.abc import Iterator, Sequence
from typing import Any

from icecore.store import Record, origin
from icecore.sweeps.tracking import Track, track
from icecore.sweeps.variance import OF_RUN
from icecore.training import TrainedRun

PER_SEED, OF_CONFIG = ("points", "beside"), ("task", "seeds")  # parts of a result of `track`; the rest is shared
KEPT = ("measures", "above_baseline", "controls")  # curves, maps and lists are left to `icecore track`
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
    shared = {name: value for name, value in result.items() if name not in (*PER_SEED, *OF_CONFIG)}
    for record in records:
        own = {
            name: [shortened(point) for point in result.get(name, []) if point["seed"] == record["seed"]]
            for name in PER_SEED
        }
        yield {**{name: record[name] for name in OF_RUN}, **origin(), "track": {**shared, **own}}


def shortened(point: Result) -> Result:
    """Return a point's measures, controls and numbers."""
    return {name: value for name, value in point.items() if name in KEPT or not isinstance(value, dict | list)}
