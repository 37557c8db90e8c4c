"""What a trained model gets wrong: which items, how long they are, and where in an answer."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Bool, Int64
from torch import Tensor

from icecore.tasks import Batch, Item


@dataclass(frozen=True)
class ErrorsByLength:
    """The items whose prompts have one length: how many, and how many of them each seed gets wrong."""

    length: int
    items: int
    wrong: tuple[int, ...]
    answers: tuple[tuple[int, ...], ...]  # the right ones of those that any seed gets wrong, each once


@dataclass(frozen=True)
class AccuracyByPosition:
    """The tokens that are scored as an item's first, second, ...: how many, and which share each seed gets right."""

    position: int  # from 1
    items: int
    accuracy: tuple[float, ...]


def wrong_items(predictions: Int64[Tensor, "seed item seq"], batch: Batch) -> Bool[Tensor, "seed item"]:
    """Whether any scored token of an item is wrong."""
    return ((predictions != batch.targets) & batch.scored).any(dim=-1)


def errors_by_length(items: Sequence[Item], wrong: Bool[Tensor, "seed item"]) -> list[ErrorsByLength]:
    """Every length, the shortest first."""
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
    """Every place among an item's scored tokens, the first first."""
    place = batch.scored.cumsum(dim=-1) * batch.scored  # (item, seq): 0 where nothing is scored
    right = predictions == batch.targets
    found: list[AccuracyByPosition] = []
    for number in range(1, int(place.max()) + 1):
        here = place == number
        accuracy = right[:, here].double().mean(dim=1)  # (seed, item) to (seed,)
        found.append(AccuracyByPosition(number, int(here.sum()), tuple(accuracy.tolist())))
    return found
