"""Rank: how many directions do the embeddings around a random body need? Not in the paper.

Tokens, positions and U are restricted to rank r, apart and together, in four bases (`icecore train --embedding-rank`).
Each cell takes its best of two rates on validation items; rates grow with the square root of width over rank, which
keeps the size of a step. The halfway rank r* comes from a logistic curve.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from icecore.paper.cells import PaperCell
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment, Figure
from icecore.paper.origins import changed_cell, matched_cell
from icecore.paper.rank_tables import Curve, accuracies, halfway_ranks, outcomes
from icecore.paper.scales import FOUR, Scale
from icecore.reporting.claim import Claim, Source, percentage, without_verdict
from icecore.reporting.figures.widths import Point, chart_widths, draw_widths
from icecore.reporting.table import Table
from icecore.store.records import Record, key_of
from icecore.sweeps.names import CellName

if TYPE_CHECKING:
    from icecore.sweeps.cells import Cell

WIDTHS = {"paper": (512, 256, 1024), "laptop": (128, 64, 32)}  # the first has all arms
RANKS = {"paper": (2, 4, 8, 16, 32, 64, 128, 256), "laptop": (2, 4, 8, 16, 32, 64)}
SHARES = {"paper": (1.0, 5.0), "laptop": (0.3, 1.0)}  # of the rate that the embeddings have without a restriction
STEPS = {"paper": {"modular-addition": 10_000}}  # DIFFERS: the scripts' 50,000 are for full training
ALL = ("token", "position", "unembed")
RANDOM = "random"
# By name: the basis, and what is restricted.
ARMS: dict[str, tuple[str, tuple[str, ...]]] = {
    RANDOM: ("random", ALL),
    "learned": ("learned", ALL),
    "body": ("body", ALL),
    "subspace": ("subspace", ALL),
    "tokens alone": ("random", ("token",)),
    "positions alone": ("random", ("position",)),
    "U alone": ("random", ("unembed",)),
}


@dataclass(frozen=True)
class Place:
    """A cell by its task, arm, width and rank."""

    task: str
    arm: str
    width: int
    rank: int

    @property
    def name(self) -> CellName:
        return CellName(self.task, "Random", self.width, variant=f"rank {self.rank}, {self.arm}")


def places(scale: str) -> Iterator[Place]:
    """Yield the places, the most telling first."""
    first, *others = WIDTHS[scale]
    lines = [(RANDOM, first), *((RANDOM, width) for width in others), *((arm, first) for arm in ARMS if arm != RANDOM)]
    for arm, width in lines:
        for rank in RANKS[scale]:
            if rank <= width:
                yield from (Place(task, arm, width, rank) for task in FOUR)


def cells(scale: Scale, preset: str) -> list[PaperCell]:
    return [restricted_cell(scale, preset, place) for place in places(scale.name)]


def restricted_cell(scale: Scale, preset: str, place: Place) -> PaperCell:
    basis, roles = ARMS[place.arm]

    def restrict(full: "Cell") -> "Cell":
        steps = STEPS.get(scale.name, {}).get(place.task)
        own = {"embedding_rank": place.rank, "rank_basis": basis, "rank_of": roles}
        usual = full.of_one_seed.training.lr * math.sqrt(place.width / place.rank)
        rates = tuple(float(f"{share * usual:.2g}") for share in SHARES[scale.name])
        more = {} if steps is None else {"steps": steps}
        return replace(full, training={**full.training, **more, **own, "lr": rates[0]}, rates=rates)

    return changed_cell(matched_cell(scale, preset, place.task, "Random", place.width), place.name, restrict)


def recorded(evidence: Evidence) -> list[tuple[Place, list[Record]]]:
    known = {place.name: place for place in places(evidence.scale)}
    return [(known[cell.name], runs) for cell in RANK.of(evidence) if (runs := evidence.runs(cell))]


def curves(evidence: Evidence) -> list[Curve]:
    """Return a curve per task, arm and width."""
    found: dict[tuple[str, str, int], Curve] = {}
    for place, runs in recorded(evidence):
        curve = found.setdefault((place.task, place.arm, place.width), Curve(place.task, place.arm, place.width))
        curve.add(place.rank, runs)
    return list(found.values())


def claims(experiment: Experiment, evidence: Evidence) -> list[Claim]:
    """Return the halfway rank of each curve."""
    known, found = {(curve.task, curve.arm, curve.width): curve for curve in curves(evidence)}, []
    sources: dict[tuple[str, str, int], tuple[Source, ...]] = {}
    for place, runs in recorded(evidence):
        own = place.task, place.arm, place.width
        sources[own] = (*sources.get(own, ()), Source.of(place.name, runs, percentage))
    for task, arm, width in dict.fromkeys((place.task, place.arm, place.width) for place in places(evidence.scale)):
        curve = known.get((task, arm, width))
        half = None if curve is None else curve.halfway
        inside = half is not None and half.is_inside
        found.append(
            Claim(
                experiment.name,
                f"{task}, {arm}, width {width}: r*",
                None,
                half.rank if half is not None and inside else None,
                half.by_seed if half is not None and inside else (),
                None,
                "",
                "not in the paper",
                without_verdict(None if half is None else half.rank),
                note="" if half is None else str(half),
                seeds=0 if half is None else len(half.seeds),
                sources=sources.get((task, arm, width), ()),
            )
        )
    return found


def tables(_experiment: Experiment, evidence: Evidence) -> list[Table]:
    found = curves(evidence)
    return [halfway_ranks(found), accuracies(found, RANKS[evidence.scale]), outcomes(found, WIDTHS[evidence.scale])]


def points(evidence: Evidence) -> list[Point]:
    """Return accuracy against rank, a line per arm and width."""
    widest = WIDTHS[evidence.scale][0]
    return [
        Point(
            place.task,
            f"Random, {place.arm}" + ("" if place.width == widest else f", width {place.width}"),
            place.rank,
            tuple(map(percentage, runs)),
            100 * max(runs[0]["baselines"].values(), default=0.0),
            RANKS[evidence.scale],
            tuple(run["seed"] for run in runs),
            tuple(map(key_of, runs)),
        )
        for place, runs in recorded(evidence)
    ]


TITLE = "Accuracy against the rank of the embeddings, around a random body"
RANK = Experiment(
    "rank",
    "how many directions the embeddings need (not in the paper)",
    cells,
    claims,
    {"rank": Figure(TITLE, points, partial(draw_widths, along="rank"), partial(chart_widths, along="rank"))},
    has_rates=True,
    tables=tables,
)
