"""Figure 4 and Table 5: language models, from the records alone, whatever text they were trained on."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from icecore.reporting.claim import Claim, median_of, verdict_of, without_verdict
from icecore.reporting.paper_numbers import LANGUAGE_SHAPES, TABLE5, Shape
from icecore.reporting.share_claims import share_claim
from icecore.store import Record
from icecore.sweeps.cells import Name
from icecore.sweeps.entries import ENTRIES
from icecore.training.presets import source_of

OTHER_TEXT = "the paper's text is 2 GB of TinyStories, ours another"


@dataclass(frozen=True)
class Trained:
    """Language models of one shape: the best validation loss of each seed, and those that need no learning."""

    kind: str  # Random or Normal
    width: int
    layers: int
    values: tuple[float, ...]
    floors: dict[str, float]
    train_tokens: int
    epochs: float

    @property
    def name(self) -> Name:
        return Name("language", self.kind, self.width, self.layers, "best validation loss")


def trained(records: Iterable[Record], preset: str) -> list[Trained]:
    """What is recorded of the text that has the most records, by layers, kind and width.

    One shape may have been trained for different numbers of epochs; all count, since the best loss does.
    """
    runs = of_one_text(records, preset)
    shapes = {(layers_of(run), kind_of(run), width_of(run)) for run in runs}
    found = []
    for layers, kind, width in sorted(shapes):
        own = [run for run in runs if (layers_of(run), kind_of(run), width_of(run)) == (layers, kind, width)]
        values, text = tuple(sorted(run["best_loss"] for run in own)), own[0]["text"]
        floors, tokens = own[0].get("loss_floors", {}), text["tokens"]["train"]
        found.append(Trained(kind, width, layers, values, floors, tokens, text["epochs"]))
    return found


def of_one_text(records: Iterable[Record], preset: str) -> list[Record]:
    """One record a run of language modeling, trained on the text that most of them were trained on."""
    runs = [
        run
        for run in records
        if run["config"]["task"]["name"] == "language"
        and run["config"]["model"]["settings"].get("init") == source_of(preset)
        and run["config"]["trainable"] in ("embeddings", "all")
    ]
    texts = Counter(map(digest_of, runs)).most_common(1)
    return [run for run in runs if digest_of(run) == texts[0][0]]


def digest_of(run: Record) -> str:
    return run["config"]["task"]["settings"]["digest"]


def kind_of(run: Record) -> str:
    return "Normal" if run["config"]["trainable"] == "all" else "Random"


def width_of(run: Record) -> int:
    return run["config"]["model"]["settings"]["width"]


def layers_of(run: Record) -> int:
    return run["config"]["model"]["settings"]["layers"]


def fig4_claims(records: Iterable[Record], scale: str, preset: str) -> list[Claim]:
    """Each point, and what the paper says of the figure; of a laptop's few stories nothing can be said."""
    points = trained(records, preset)
    shapes = LANGUAGE_SHAPES if scale == "paper" else ()
    return [*map(point_claim, points), *(shape_claim(points, shape) for shape in shapes)]


def point_claim(point: Trained) -> Claim:
    ours, floor = median_of(point.values), min(point.floors.values(), default=None)
    verdict, label, place = without_verdict(ours), str(point.name), ENTRIES["fig4"].place(point.name)
    note = f"within {point.epochs:g} epochs of {point.train_tokens:,} tokens"
    return Claim(
        "fig4", label, None, ours, point.values, floor, "", OTHER_TEXT, verdict, digits=3, note=note, place=place
    )


def shape_claim(points: Sequence[Trained], shape: Shape) -> Claim:
    """One model's loss less another's. On another text only its sign, or that it is small, can be compared."""
    by_size = {f"{point.kind} {point.name.size}": point for point in points}
    first, second = by_size.get(shape.first), by_size.get(shape.second)
    ours = None
    if first is not None and second is not None:
        ours = statistics.median(first.values) - statistics.median(second.values)
    seeds = 0 if first is None or second is None else min(len(first.values), len(second.values))
    label = f"loss of {shape.first} less {shape.second}"
    verdict = verdict_of(ours, ours is not None and shape.least <= ours <= shape.most)
    tolerance, reason = shape.tolerance, shape.reason
    return Claim("fig4", label, shape.paper, ours, (), None, tolerance, reason, verdict, digits=2, seeds=seeds)


def table5_claims(inside: Iterable[Record], scale: str, preset: str) -> list[Claim]:
    """Shares of variance, every position pooled: in a window all of them are read."""
    runs = [run for run in of_one_text(inside, preset) if layers_of(run) == 4]
    width = max(map(width_of, runs), default=512)
    found = []
    for share in TABLE5:
        own = [run for run in runs if kind_of(run) == share.cell and width_of(run) == width]
        cell, is_comparable = str(Name("language", share.cell, width)), scale == "paper" and width == 512
        found.append(share_claim("table5", share, own, is_comparable, cell, f"; {OTHER_TEXT}"))
    return found
