"""What an analysis is, and what it is given to context at."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from icecore.analysis.moments import Moments, Positions, in_parts, moments_of, streams_of
from icecore.errors import unknown_name
from icecore.models import Model, device_of, traced
from icecore.reporting.table import Table
from icecore.sweeps.variance import sample_of
from icecore.tasks import Batch
from icecore.training import Population, RunConfig, index_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Result = dict[str, Any]  # what was found, as JSON
Both = tuple[dict[str, Moments], dict[str, Moments]]  # of the trained model, and of the untrained one
AnalysisProgress = Callable[[str, int, int], None]  # which analysis, how many parts are done, and of how many


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
        """Raise unless the model's hook gets the streams that the model names."""
        tokens = self.sample.tokens[:1].to(device_of(self.untrained))
        traced(self.model, self.untrained, tokens, streams_of(self.model))

    @property
    def both(self) -> dict[str, dict[str, Tensor]]:
        """The parameters, and their control."""
        return {"trained": self.parameters, "untrained": self.untrained}


@dataclass(frozen=True)
class AnalysisOptions:
    """The user's choices."""

    positions: Positions = "read"  # whose activations are pooled
    items: int = 1_000  # of the test set, at most
    activation: str | None = None  # of the stream, that is edited alone
    prompt: str | None = None  # whose attention is shown
    components: tuple[int, int] | None = None  # of the embedding, that are drawn


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
        """The moments of the residual stream, trained and untrained, on the same items; several analyses share them."""
        self.run.require_streams()
        self.on_progress("moments", 0, 1)
        trained, untrained = (
            moments_of(
                self.run.model,
                parameters,
                self.in_parts("moments", self.run.sample, half),
                self.options.positions,
            )
            for half, parameters in enumerate(self.run.both.values())
        )
        return trained, untrained

    def in_parts(self, what: str, batch: Batch, half: int) -> Iterator[Batch]:
        """Yield a batch in parts, as the first or second half of the work, and report progress."""
        done = half * len(batch)
        for part in in_parts(batch):
            yield part
            done += len(part)
            self.on_progress(what, done, 2 * len(batch))


@dataclass(frozen=True)
class Analysis:
    """One analysis: how it is measured, printed and drawn."""

    name: str
    measure: Callable[[AnalysisContext], Result]
    tables: Callable[[Result], list[Table]]
    figure: Callable[[AnalysisContext, Result], "Figure | None"] = lambda _context, _result: None
    figure_name: str = ""  # its file's, if it is not the analysis's
    fits: Callable[[AnalyzedRun], bool] = lambda _: True  # whether it is made if none is named


def has_streams(run: AnalyzedRun) -> bool:
    return bool(run.model.streams)


def percent(value: float) -> str:
    return f"{100 * value:.1f}"
