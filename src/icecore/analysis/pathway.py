"""Refined or replaced: does a network still use the mechanism that it had before its body trained?

Each measure stands between two references: what a network that kept its mechanism gives, and what an unrelated one
gives, the null. A score of 1 is the first, 0 the second.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float
from torch import Tensor

from icecore.analysis.attention import attention_overlap
from icecore.analysis.evaluation import accuracy_and_loss, editing
from icecore.analysis.moments import Moments
from icecore.analysis.pairs import Line, PairMoments, joined, line_between, pair_moments
from icecore.analysis.subspaces import Mode, Subspace, counts_up_to, shuffled_answers
from icecore.models import Model, ModelDims, Parameters
from icecore.tasks import Batch, Task

KEPT, LOST = 0.9, 0.5  # shares of the accuracy above chance: enough directions are kept, too many are removed
CONTRAST = 0.1  # the least distance between both references of a measure that can tell them apart


@dataclass(frozen=True)
class Measure:
    """One number beside both references. A causal one measures accuracy or loss after parts were edited or mixed."""

    name: str
    here: float
    refined: float
    replaced: float
    causal: bool = True

    @property
    def score(self) -> float | None:
        """Return where the value lies between the references, from 0 to 1; None if they are too close."""
        span = self.refined - self.replaced
        if abs(span) < CONTRAST:
            return None
        return min(1.0, max(0.0, (self.here - self.replaced) / span))


@dataclass(frozen=True)
class Setting:
    """Test items and activations that all networks of a comparison share."""

    model: Model
    dims: ModelDims
    task: Task
    items: Batch  # test items
    sample: Batch  # items whose activations are compared

    def accuracy(self, parameters: Parameters) -> float:
        return accuracy_and_loss(self.model, parameters, self.task, self.items)[0]

    def joined(self, embeddings: Parameters, body: Parameters) -> dict[str, Tensor]:
        return joined(self.model, self.dims, embeddings, body)

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
    def accuracy(self) -> float:
        return self.setting.accuracy(self.before)

    @cached_property
    def chance(self) -> float:
        """Return the accuracy on answers of other items."""
        setting = self.setting
        return accuracy_and_loss(setting.model, self.before, setting.task, shuffled_answers(setting.items))[0]

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
    def counts(self) -> tuple[int, int]:
        """Return how many top directions suffice, and how many must be removed to do harm, before the body trained."""
        moments = {place: pair.first for place, pair in self.to_null.items()}
        above = self.accuracy - self.chance

        def first(mode: Mode, is_reached: Callable[[float], bool]) -> int:
            width = self.setting.model.width
            tried = (
                (count, self.with_directions(self.before, moments, moments, count, mode))
                for count in counts_up_to(width)
            )
            return next((count for count, accuracy in tried if is_reached(accuracy - self.chance)), width)

        return first("keep", lambda left: left >= KEPT * above), first("remove", lambda left: left <= LOST * above)

    def with_directions(
        self, parameters: Parameters, own: Mapping[str, Moments], of: Mapping[str, Moments], count: int, mode: Mode
    ) -> float:
        """Return a network's accuracy around its own means when it keeps, or loses, another's top directions."""
        setting, edits = self.setting, {}
        for place in setting.edited:
            subspace = Subspace(own[place].mean.float(), of[place].directions(count).float())
            edits[place] = subspace.keep if mode == "keep" else subspace.remove
        return accuracy_and_loss(setting.model, parameters, setting.task, setting.items, editing(edits))[0]


@dataclass(frozen=True)
class Pair:
    """A network before and after its body trained."""

    pathway: Pathway
    after: Parameters

    @property
    def setting(self) -> Setting:
        return self.pathway.setting

    @cached_property
    def accuracy(self) -> float:
        return self.setting.accuracy(self.after)

    @cached_property
    def moments(self) -> dict[str, PairMoments]:
        return pair_moments(self.setting.model, self.pathway.before, self.after, self.setting.sample)
