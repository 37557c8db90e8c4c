"""Analyses and their inputs."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from icecore.analysis.moments import Moments, PooledPositions, in_chunks, moments_of, streams_of
from icecore.errors import unknown_name
from icecore.models import Model, device_of, traced
from icecore.reporting.chart import Chart, Maps
from icecore.reporting.table import Table
from icecore.sweeps.variance import sample_of
from icecore.tasks import Batch
from icecore.training import Population, RunConfig, index_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Result = dict[str, Any]  # as JSON
Both = tuple[dict[str, Moments], dict[str, Moments]]  # trained and untrained
AnalysisProgress = Callable[[str, int, int], None]  # (analysis, parts done, all parts)


@dataclass(frozen=True)
class AnalyzedRun:
    """One seed of a run, and the same seed before training."""

    config: RunConfig
    seed: int
    model: Model
    parameters: dict[str, Tensor]
    untrained: dict[str, Tensor]
    sample: Batch
    trained_parameters: int
    frozen_parameters: int

    @staticmethod
    def of(config: RunConfig, population: Population, seed: int) -> "AnalyzedRun":
        index = index_of(seed, config.seeds)
        device = population.device
        untrained = {name: value.to(device) for name, value in config.initial(seed).items()}
        parameters = population.parameters(index)
        return AnalyzedRun(
            config, seed, config.model, parameters, untrained, sample_of(config.task), *config.parameter_counts
        )

    def require_streams(self) -> None:
        """Raise unless the model calls its hook with the residual streams it names."""
        tokens = self.sample.tokens[:1].to(device_of(self.untrained))
        traced(self.model, self.untrained, tokens, streams_of(self.model))

    @property
    def both(self) -> dict[str, dict[str, Tensor]]:
        """Return the trained parameters and, as their control, the untrained ones."""
        return {"trained": self.parameters, "untrained": self.untrained}


@dataclass(frozen=True)
class AnalysisOptions:
    """The user's options."""

    positions: PooledPositions = "read"  # positions to pool
    items: int = 1_000  # most test items
    activation: str | None = None  # edit only this activation of the residual stream
    prompt: str | None = None  # for attention maps
    components: tuple[int, int] | None = None  # principal components of the embeddings, to draw


def silence(_what: str, _done: int, _total: int) -> None:
    pass


@dataclass(frozen=True)
class AnalysisContext:
    """The inputs of an analysis: the run, options, a progress callback."""

    run: AnalyzedRun
    options: AnalysisOptions = AnalysisOptions()
    on_progress: AnalysisProgress = silence

    def __post_init__(self) -> None:
        chosen = self.options.activation
        if chosen is not None and chosen not in (streams := streams_of(self.run.model)):
            raise unknown_name("activation", chosen, streams)

    @functools.cached_property
    def moments(self) -> Both:
        """Return the moments of the residual stream, trained and untrained, on the same items. Analyses share them."""
        self.run.require_streams()
        self.on_progress("moments", 0, 1)
        trained, untrained = (
            moments_of(
                self.run.model,
                parameters,
                self.in_chunks("moments", self.run.sample, half),
                self.options.positions,
            )
            for half, parameters in enumerate(self.run.both.values())
        )
        return trained, untrained

    def in_chunks(self, what: str, batch: Batch, half: int) -> Iterator[Batch]:
        """Yield a batch in parts, as the first or second half of the work, and report progress."""
        done = half * len(batch)
        for part in in_chunks(batch):
            yield part
            done += len(part)
            self.on_progress(what, done, 2 * len(batch))


@dataclass(frozen=True)
class Analysis:
    """One analysis: what it asks, how it is measured, printed, drawn, and charted in the page."""

    name: str
    about: str  # a sentence for readers of the page
    measure: Callable[[AnalysisContext], Result]
    tables: Callable[[Result], list[Table]]
    figure: Callable[[AnalysisContext, Result], "Figure | None"] = lambda _context, _result: None
    figure_name: str = ""  # file name, if not the analysis's
    fits: Callable[[AnalyzedRun], bool] = lambda _: True  # whether it runs by default
    chart: Callable[[Result], Sequence[Chart | Maps]] = lambda _result: ()


def has_streams(run: AnalyzedRun) -> bool:
    return bool(run.model.streams)


def percent(value: float) -> str:
    return f"{100 * value:.1f}"
