"""Figure 6: the KL divergence of imitation against the target's width. The paper draws it and prints no number."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from icecore.reporting.claim import Claim, median_of, verdict_of, without_verdict
from icecore.reporting.paper_numbers import (
    FAR_BELOW,
    FAR_BELOW_FROM,
    LAPTOP_BELOW,
    REPLICATION,
    SHARP_RISE,
    SHARP_RISE_BETWEEN,
)
from icecore.store import Record
from icecore.sweeps.cells import Cell, Name
from icecore.tasks import Imitation

PRINTS_NO_NUMBER = "the paper prints no number"


@dataclass(frozen=True)
class Imitated:
    """One target's width and one student: its runs' KL divergences, and those that need no learning."""

    kind: str  # Random or Normal
    student: str  # 256x3: its width, as the paper counts it, and layers
    target_width: int
    values: tuple[float, ...]
    floors: dict[str, float]


def imitated(cell: Cell, by_setting: dict[str, list[Record]]) -> Imitated:
    assert isinstance(cell.task, Imitation)
    runs = by_setting.get(cell.setting, [])
    floors = runs[0].get("loss_floors", {}) if runs else {}
    losses = tuple(sorted(run["loss"] for run in runs))
    return Imitated(cell.name.kind, cell.name.size, cell.task.target_width, losses, floors)


def fig6_claims(cells: Sequence[Cell], scale: str, by_setting: dict[str, list[Record]]) -> list[Claim]:
    """Each point, and the figure's shape."""
    points = [imitated(cell, by_setting) for cell in cells]
    found = [point_claim(point, cell.name, scale) for point, cell in zip(points, cells, strict=True)]
    below = LAPTOP_BELOW if scale == "laptop" else FAR_BELOW
    narrow, wide = SHARP_RISE_BETWEEN
    for student in dict.fromkeys(point.student for point in points):
        random, normal = (
            {point.target_width: point for point in points if (point.kind, point.student) == (kind, student)}
            for kind in ("Random", "Normal")
        )
        label = f"Random {student}, KL at {wide} over {narrow}"
        found.append(shape_claim(label, random[wide], random[narrow], *SHARP_RISE))
        found += [
            shape_claim(f"Random over Normal {student}, KL at {width}", random[width], normal[width], *below)
            for width in random
            if width >= FAR_BELOW_FROM
        ]
    return found


def point_claim(point: Imitated, cell: Name, scale: str) -> Claim:
    ours = median_of(point.values)
    floor = min(point.floors.values(), default=None)
    replicated = REPLICATION[point.kind].get(point.target_width) if scale == "paper" else None
    note = "" if replicated is None else f"replication {replicated:.3f}"
    verdict, name = without_verdict(ours), replace(cell, more="KL")
    return Claim(
        "fig6",
        str(name),
        None,
        ours,
        point.values,
        floor,
        "",
        PRINTS_NO_NUMBER,
        verdict,
        digits=4,
        note=note,
        place=(name.column, name.task),
    )


def shape_claim(label: str, upper: Imitated, lower: Imitated, least: float, reason: str) -> Claim:
    """That one median KL divergence is at least so many times another."""
    above, below = median_of(upper.values), median_of(lower.values)
    ours = above / below if above is not None and below else None
    verdict = verdict_of(ours, ours is not None and ours >= least)
    seeds = min(len(upper.values), len(lower.values))
    return Claim("fig6", label, None, ours, (), None, f"at least {least:g}", reason, verdict, seeds=seeds)
