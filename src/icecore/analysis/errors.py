"""Errors of a trained model: by item, by length, and by position in the answer."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Bool, Int64
from torch import Tensor

from icecore.tasks import Batch, Item


@dataclass(frozen=True)
class ErrorsByLength:
    """Items with prompts of one length: their number, and each seed's number of errors."""

    length: int
    items: int
    wrong: tuple[int, ...]
    answers: tuple[tuple[int, ...], ...]  # distinct right answers of the items that any seed gets wrong


@dataclass(frozen=True)
class AccuracyByPosition:
    """Scored tokens at one position of their items: their number, and each seed's accuracy."""

    position: int  # among the item's scored tokens, from 1
    items: int
    accuracy: tuple[float, ...]


def wrong_items(predictions: Int64[Tensor, "seed item seq"], batch: Batch) -> Bool[Tensor, "seed item"]:
    """Tell which items have a wrong scored token."""
    return ((predictions != batch.targets) & batch.scored).any(dim=-1)


def errors_by_length(items: Sequence[Item], wrong: Bool[Tensor, "seed item"]) -> list[ErrorsByLength]:
    """Return the errors of every length, the shortest first."""
    places: dict[int, list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        places[len(item.prompt)].append(place)
    found: list[ErrorsByLength] = []
    for length, here in sorted(places.items()):
        of_length = wrong[:, here]
        missed = [place for place, is_wrong in zip(here, of_length.any(dim=0).tolist(), strict=True) if is_wrong]
        answers = tuple(sorted({items[place].answer for place in missed}))
        found.append(ErrorsByLength(length, len(here), tuple(of_length.sum(dim=1).tolist()), answers))
    return found


def accuracy_by_position(predictions: Int64[Tensor, "seed item seq"], batch: Batch) -> list[AccuracyByPosition]:
    """Return the accuracy at every position among an item's scored tokens, in order."""
    place = batch.scored.cumsum(dim=-1) * batch.scored  # (item, seq): 0 where nothing is scored
    right = predictions == batch.targets
    found: list[AccuracyByPosition] = []
    for number in range(1, int(place.max()) + 1):
        here = place == number
        accuracy = right[:, here].double().mean(dim=1)  # (seed, item) to (seed,)
        found.append(AccuracyByPosition(number, int(here.sum()), tuple(accuracy.tolist())))
    return found
