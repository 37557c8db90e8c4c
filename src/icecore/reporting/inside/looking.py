"""What an analysis is, and what it is given to look at."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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
Tell = Callable[[str, int, int], None]  # what is looked at, how many parts of it are done, and of how many


@dataclass(frozen=True)
class Subject:
    """One seed of a run, and the same seed before training."""

    config: RunConfig
    model: Model
    parameters: dict[str, Tensor]
    untrained: dict[str, Tensor]
    sample: Batch
    trained_parameters: int
    frozen_parameters: int

    @staticmethod
    def of(config: RunConfig, population: Population, seed: int) -> "Subject":
        index = index_of(seed, config.seeds)
        device = population.device
        untrained = {name: value.to(device) for name, value in config.initial(seed).items()}
        parameters = population.parameters(index)
        return Subject(config, config.model, parameters, untrained, sample_of(config.task), *config.parameter_counts)

    def require_streams(self) -> None:
        """Raise unless the model's hook gets the streams that the model names."""
        tokens = self.sample.tokens[:1].to(device_of(self.untrained))
        traced(self.model, self.untrained, tokens, streams_of(self.model))

    @property
    def both(self) -> dict[str, dict[str, Tensor]]:
        """The parameters, and their control."""
        return {"trained": self.parameters, "untrained": self.untrained}


@dataclass(frozen=True)
class Request:
    """What a user chooses of the analyses."""

    positions: Positions = "read"  # whose activations are pooled
    items: int = 1_000  # of the test set, at most
    place: str | None = None  # of the stream, that is edited alone
    prompt: str | None = None  # whose attention is shown
    components: tuple[int, int] | None = None  # of the embedding, that are drawn


def silence(_what: str, _done: int, _total: int) -> None:
    pass


@dataclass(frozen=True)
class Look:
    """A subject, what is asked of it, and someone who is told how far this is."""

    subject: Subject
    request: Request = field(default_factory=Request)
    tell: Tell = silence

    def __post_init__(self) -> None:
        place = self.request.place
        if place is not None and place not in (places := streams_of(self.subject.model)):
            raise unknown_name("place", place, places)

    @functools.cached_property
    def moments(self) -> Both:
        """Of the residual stream on the same items; several analyses share them."""
        self.subject.require_streams()
        self.tell("moments", 0, 1)
        trained, untrained = (
            moments_of(
                self.subject.model,
                parameters,
                self.in_parts("moments", self.subject.sample, half),
                self.request.positions,
            )
            for half, parameters in enumerate(self.subject.both.values())
        )
        return trained, untrained

    def in_parts(self, what: str, batch: Batch, half: int) -> Iterator[Batch]:
        """A batch that is gone through twice, this time as its first or second half, telling how far this is."""
        done = half * len(batch)
        for part in in_parts(batch):
            yield part
            done += len(part)
            self.tell(what, done, 2 * len(batch))


@dataclass(frozen=True)
class Analysis:
    """One thing to look at: how it is measured, printed and drawn."""

    name: str
    measure: Callable[[Look], Result]
    tables: Callable[[Result], list[Table]]
    figure: Callable[[Look, Result], "Figure | None"] = lambda _look, _result: None
    figure_name: str = ""  # its file's, if it is not the analysis's
    fits: Callable[[Subject], bool] = lambda _: True  # whether it is made if none is named


def has_streams(subject: Subject) -> bool:
    return bool(subject.model.streams)


def percent(value: float) -> str:
    return f"{100 * value:.1f}"
