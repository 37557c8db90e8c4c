"""Table 3 and Figure 8: what was memorized, for each parameter, and whether training was at its end."""

from collections.abc import Sequence

from icecore.reporting.claim import Claim, median_of, verdict_of, without_verdict
from icecore.reporting.paper_numbers import CONVERGED, LAPTOP_RATIO, TABLE3, TENTH
from icecore.store import Record
from icecore.sweeps.cells import Cell

PAPERS = ("accuracy", "bits", "trained parameters", "bits a parameter")
# Beside the paper's: by the loss, with chance taken off, and for each parameter there is, frozen ones too.
OURS = {
    "bits by the loss": "loss_bits",
    "bits by the loss a trained parameter": "loss_bits_per_trained",
    "bits a parameter, frozen too": "accuracy_bits_per_parameter",
    "bits by the loss a parameter, frozen too": "loss_bits_per_parameter",
}
LAPTOP_REASON = "a laptop's table and model are smaller than the paper's"


def table3_claims(cells: Sequence[Cell], scale: str, by_setting: dict[str, list[Record]]) -> list[Claim]:
    """The paper's four numbers of each model, ours beside them, and how many times more Normal knows."""
    found: list[Claim] = []
    runs_of = {cell.name.column: runs_with("capacity", cell, by_setting) for cell in cells}
    for column, runs in runs_of.items():
        for name, paper, values in zip(PAPERS, TABLE3[column], papers_values(runs), strict=True):
            found.append(number_claim(column, name, paper, values, scale, runs))
        for name, key in OURS.items():
            values = [run["capacity"][key] for run in runs]
            found.append(own_claim(column, name, list(map(round, values)) if key == "loss_bits" else values))
    return [*found, ratio_claim(runs_of, scale)]


def runs_with(key: str, cell: Cell, by_setting: dict[str, list[Record]]) -> list[Record]:
    return [run for run in by_setting.get(cell.setting, []) if key in run]


def papers_values(runs: Sequence[Record]) -> tuple[list[float], ...]:
    """As the paper counts, in the order of its columns."""
    return (
        [100 * run["accuracy"] for run in runs],
        [round(run["capacity"]["accuracy_bits"]) for run in runs],
        [run["trained_parameters"] for run in runs],
        [run["capacity"]["accuracy_bits_per_trained"] for run in runs],
    )


def whole_median(values: Sequence[float]) -> float | None:
    """The median; of whole numbers a whole number."""
    ours = median_of(values)
    return round(ours) if ours is not None and all(isinstance(value, int) for value in values) else ours


def number_claim(
    column: str, name: str, paper: float, values: Sequence[float], scale: str, runs: Sequence[Record]
) -> Claim:
    ours = whole_median(values)
    share, reason = (0.0, "counts are exact") if name == "trained parameters" else TENTH
    allowed = share * paper
    tolerance = f"{allowed:,.0f}" if isinstance(paper, int) else f"{allowed:.2f}"
    verdict = verdict_of(ours, ours is not None and abs(ours - paper) <= allowed)
    if scale == "laptop":
        tolerance, reason, verdict = "", LAPTOP_REASON, without_verdict(ours)
    floor = 100 * max(runs[0]["floors"].values(), default=0.0) if runs and name == "accuracy" else None
    cell, place = f"{column}, {name}", (column, name)
    return Claim("table3", cell, paper, ours, tuple(values), floor, tolerance, reason, verdict, digits=2, place=place)


def own_claim(column: str, name: str, values: Sequence[float]) -> Claim:
    ours, reason = whole_median(values), "not in the paper"
    cell, place, verdict = f"{column}, {name}", (column, name), without_verdict(ours)
    return Claim("table3", cell, None, ours, tuple(values), None, "", reason, verdict, digits=2, place=place)


def ratio_claim(runs_of: dict[str, list[Record]], scale: str) -> Claim:
    """How many times more bits a trained parameter of Normal holds, by the paper's count."""
    key = "accuracy_bits_per_trained"
    normal, random = (median_of([run["capacity"][key] for run in runs_of[column]]) for column in TABLE3)
    ours = normal / random if normal is not None and random else None
    paper = round(TABLE3["Normal 128"][3] / TABLE3["Random 128"][3], 2)
    allowed = 2 * TENTH[0] * paper
    tolerance, reason = f"{allowed:.2f}", "a tenth of each of the two numbers"
    agrees = ours is not None and abs(ours - paper) <= allowed
    if scale == "laptop":
        tolerance, reason = f"at least {LAPTOP_RATIO:g}", f"{LAPTOP_REASON}; several times stays several times"
        agrees = ours is not None and ours >= LAPTOP_RATIO
    seeds = min(map(len, runs_of.values()))
    verdict = verdict_of(ours, agrees)
    row, column = "Normal over Random", "bits a parameter"
    return Claim(
        "table3",
        f"{row}, {column}",
        paper,
        ours,
        (),
        None,
        tolerance,
        reason,
        verdict,
        digits=2,
        seeds=seeds,
        place=(row, column),
    )


def fig8_claims(cells: Sequence[Cell], _scale: str, by_setting: dict[str, list[Record]]) -> list[Claim]:
    """How many points of accuracy the last tenth of training adds."""
    most, reason = CONVERGED
    found: list[Claim] = []
    for cell in cells:
        values = [last_tenth(run["curve"]) for run in runs_with("curve", cell, by_setting)]
        ours = median_of(values)
        verdict = verdict_of(ours, ours is not None and abs(ours) <= most)
        place, tolerance = (cell.name.column, "points in the last tenth"), f"at most {most:g}"
        found.append(
            Claim(
                "fig8",
                ", ".join(place),
                None,
                ours,
                tuple(values),
                None,
                tolerance,
                reason,
                verdict,
                digits=2,
                place=place,
            )
        )
    return found


def last_tenth(curve: dict[str, list[float]]) -> float:
    """The accuracy at the end less that at the last point before nine tenths of the way, in points."""
    steps, accuracy = curve["steps"], curve["accuracy"]
    before = [value for step, value in zip(steps, accuracy, strict=True) if step <= 0.9 * steps[-1]]
    return 100 * (accuracy[-1] - (before[-1] if before else 0.0))
