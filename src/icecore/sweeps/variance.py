"""Table 4's shares of variance, measured in a sweep's runs while their weights are in memory."""

from collections.abc import Iterator

from icecore.analysis.moments import explained, moments_by_positions, streams_of, training_items
from icecore.store import Record, origin
from icecore.tasks import Batch, Task
from icecore.training import TrainedRun

ITEMS, TOKENS = 2_000, 2**18  # at most, from the training distribution
TOP = 10  # SOURCE: Table 4
OF_RUN = ("run", "setting", "seed", "accuracy", "device", "versions", "config")  # what a record takes of the run's own


def sample_of(task: Task) -> Batch:
    """Return the items whose activations are measured, the same for every run."""
    return training_items(task, max(1, min(ITEMS, TOKENS // task.max_length)), "analysis")


def variance_of(runs: TrainedRun) -> Iterator[dict[str, dict[str, tuple[float, float]]]]:
    """Yield per seed the shares of the top 10 directions and neurons, by positions and activation."""
    model = runs.config.model
    sample = sample_of(runs.config.task)
    for index in range(len(runs.config.seeds)):
        found: dict[str, dict[str, tuple[float, float]]] = {}
        for positions, moments in moments_by_positions(model, runs.population.parameters(index), sample).items():
            shares = {place: explained(moments[place], TOP) for place in streams_of(model)}
            found[positions] = {place: (share.directions, share.neurons) for place, share in shares.items()}
        yield found


def inside_records(runs: TrainedRun, records: list[Record]) -> Iterator[Record]:
    """Yield one record per seed: the run and its shares of variance."""
    for record, variance in zip(records, variance_of(runs), strict=True):
        yield {**{name: record[name] for name in OF_RUN}, **origin(), "variance": variance}
