"""Refined or replaced: does a network still use the mechanism that it had before its body trained?

Each measure stands between two references: what a network that kept its mechanism gives, and what an unrelated one
gives, the null, or a rule that needs no learning. A score of 1 is the first, 0 the second.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from icecore.analysis.attention import HeadScores, attention_overlap, head_scores
from icecore.analysis.evaluation import HookOf, accuracy_and_loss, editing
from icecore.analysis.moments import Moments
from icecore.analysis.pairs import Line, PairMoments, joined, line_between, pair_moments
from icecore.analysis.subspaces import Mode, Subspace, counts_up_to
from icecore.models import Model, ModelDims, Parameters, names_of_half
from icecore.tasks import Batch, Task
from icecore.tasks.lazy import strongest_baseline

KEPT, LOST = 0.9, 0.5  # shares of the gain over the baseline: enough directions are kept, too many are removed
CONTRAST = 0.1  # the least distance between both references of a measure that can tell them apart
SHARE_OF_ROOM = 0.75  # ... or so much of what lies between the baseline and a perfect network, if that is less
LEAST_CONTRAST = 1e-3


@dataclass(frozen=True)
class Measure:
    """One number beside both references. A causal one measures accuracy or loss after parts were edited or mixed."""

    name: str
    here: float
    refined: float
    replaced: float
    causal: bool = True
    contrast: float = CONTRAST

    @property
    def score(self) -> float | None:
        """Return the place between the references, 0 at `replaced` and 1 at `refined`; None if they are too close.

        It is not cut off: beyond 1, the value exceeds what an unchanged mechanism gives.
        """
        span = self.refined - self.replaced
        return None if abs(span) < self.contrast else (self.here - self.replaced) / span


@dataclass(frozen=True)
class Yardstick:
    """Number by which networks of a task are compared, and the best rule that needs no learning."""

    metric: Literal["accuracy", "loss"]
    rule: str
    baseline: float

    @staticmethod
    def of(task: Task) -> "Yardstick":
        """Return accuracy with the best baseline or lazy rule, or loss for a task that is judged by its loss."""
        losses = task.loss_baselines()
        if losses:
            return Yardstick("loss", *min(losses.items(), key=lambda each: each[1]))
        return Yardstick("accuracy", *strongest_baseline(task))

    @property
    def contrast(self) -> float:
        room = self.baseline if self.metric == "loss" else 1 - self.baseline
        return max(LEAST_CONTRAST, min(CONTRAST, SHARE_OF_ROOM * room))

    def gain(self, value: float) -> float:
        """Return by how much a value is better than the baseline."""
        return self.baseline - value if self.metric == "loss" else value - self.baseline

    def is_better(self, value: float) -> bool:
        """Tell whether a network beats the baseline clearly enough to have a mechanism."""
        return self.gain(value) >= self.contrast

    def best(self, *values: float) -> float:
        """Return the best of these values and the baseline."""
        return max(self.baseline, *values) if self.metric == "accuracy" else min(self.baseline, *values)


@dataclass(frozen=True)
class Setting:
    """Test items and activations that all networks of a comparison share."""

    model: Model
    dims: ModelDims
    task: Task
    items: Batch  # test items
    sample: Batch  # items whose activations are compared

    @cached_property
    def yardstick(self) -> Yardstick:
        return Yardstick.of(self.task)

    def both(self, parameters: Parameters, hook_of: HookOf | None = None) -> dict[str, float]:
        """Return a network's accuracy and its loss."""
        found = accuracy_and_loss(self.model, parameters, self.task, self.items, hook_of)
        return dict(zip(("accuracy", "loss"), found, strict=True))

    def value(self, parameters: Parameters, hook_of: HookOf | None = None) -> float:
        """Return a network's accuracy, or its loss if the task is judged by that."""
        return self.both(parameters, hook_of)[self.yardstick.metric]

    def swapped(self, embeddings: Parameters, body: Parameters) -> float:
        """Return the value of one network's embeddings around another's body."""
        return self.value(joined(self.model, self.dims, embeddings, body))

    @cached_property
    def edited(self) -> tuple[str, ...]:
        """Return the activations to edit and exchange: the residual stream before the final norm."""
        return tuple(place for place in self.model.streams if place != "final")


@dataclass(frozen=True)
class Pathway:
    """A network before its body trained, and an unrelated one, the null: ideally another seed's solution."""

    setting: Setting
    before: Parameters
    null: Parameters

    @cached_property
    def both(self) -> dict[str, float]:
        return self.setting.both(self.before)

    @property
    def value(self) -> float:
        return self.both[self.setting.yardstick.metric]

    @cached_property
    def old_on_null(self) -> float:
        return self.setting.swapped(self.before, self.null)

    @cached_property
    def null_on_old(self) -> float | None:
        """Return the value of the null's embeddings on the old body; None if they are the old embeddings."""
        names = names_of_half(self.setting.model, self.setting.dims, "embeddings")
        is_same = all(torch.equal(self.before[name], self.null[name]) for name in names)
        return None if is_same else self.setting.swapped(self.null, self.before)

    @cached_property
    def to_null(self) -> dict[str, PairMoments]:
        return pair_moments(self.setting.model, self.before, self.null, self.setting.sample)

    @cached_property
    def line_to_null(self) -> Line:
        setting = self.setting
        return line_between(setting.model, self.before, self.null, setting.task, setting.items)

    @cached_property
    def heads_of_null(self) -> Float[Tensor, "layer head"]:
        return attention_overlap(self.setting.model, self.before, self.null, self.setting.items)

    @cached_property
    def head_scores(self) -> dict[str, HeadScores]:
        return head_scores(self.setting.model, self.before, self.setting.task, self.setting.items)

    @cached_property
    def counts(self) -> tuple[int, int]:
        """Return how many top directions suffice, and how many must be removed to do harm, before the body trained."""
        moments = {place: pair.first for place, pair in self.to_null.items()}
        width, gain = self.setting.model.width, self.setting.yardstick.gain
        own = gain(self.value)

        def first(mode: Mode, is_reached: Callable[[float], bool]) -> int:
            tried = (
                (count, self.with_directions(self.before, moments, moments, count, mode))
                for count in counts_up_to(width)
            )
            return next((count for count, value in tried if is_reached(gain(value))), width)

        return first("keep", lambda left: left >= KEPT * own), first("remove", lambda left: left <= LOST * own)

    def with_directions(
        self, parameters: Parameters, own: Mapping[str, Moments], of: Mapping[str, Moments], count: int, mode: Mode
    ) -> float:
        """Return a network's value around its own means when it keeps, or loses, another's top directions."""
        edits = {}
        for place in self.setting.edited:
            subspace = Subspace(own[place].mean.float(), of[place].directions(count).float())
            edits[place] = subspace.keep if mode == "keep" else subspace.remove
        return self.setting.value(parameters, editing(edits))


@dataclass(frozen=True)
class Pair:
    """A network before and after its body trained."""

    pathway: Pathway
    after: Parameters

    @property
    def setting(self) -> Setting:
        return self.pathway.setting

    @cached_property
    def both(self) -> dict[str, float]:
        return self.setting.both(self.after)

    @property
    def value(self) -> float:
        return self.both[self.setting.yardstick.metric]

    @cached_property
    def moments(self) -> dict[str, PairMoments]:
        return pair_moments(self.setting.model, self.pathway.before, self.after, self.setting.sample)
