"""The paper's numbers beside ours, from stored records, with a verdict each."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from icecore.models import Transformer, count_parameters
from icecore.reporting.claim import (
    Claim,
    Precisions,
    by_precision,
    median_of,
    of_most_seeds,
    precision_of,
    seeds_by_setting,
    seeds_in_words,
    verdict_of,
    without_verdict,
)
from icecore.reporting.imitation_claims import fig6_claims
from icecore.reporting.language_claims import fig4_claims, of_one_text, table5_claims
from icecore.reporting.memorization_claims import fig8_claims, table3_claims
from icecore.reporting.paper_numbers import LAPTOP_LINE, NUMBERS, SHARES, TABLE6, TABLE6_DIFFERS, Number
from icecore.reporting.reasons import changed_cells, reasons_of, share_reasons
from icecore.reporting.share_claims import share_claim, shares_of
from icecore.store import Record, Records
from icecore.sweeps.cells import Cell
from icecore.sweeps.entries import ENTRIES
from icecore.sweeps.variance import INSIDE
from icecore.tasks import make_task
from icecore.training.presets import preset_sizes

BODY = ("attention", "mlp", "norm")
TRAIN = " (train)"  # ends the label of an accuracy on the training set


# What is no accuracy, or not only: claims of an entry's cells, at a scale, from the records by setting.
OTHER_CLAIMS: dict[str, Callable[[Sequence[Cell], str, dict[str, list[Record]]], list[Claim]]] = {
    "table3": table3_claims,
    "fig6": fig6_claims,
    "fig8": fig8_claims,
}

LANGUAGE_CLAIMS: dict[str, Callable[[Sequence[Record], str, str], list[Claim]]] = {
    "fig4": fig4_claims,
    "table5": table5_claims,
}


def claims_of(names: Sequence[str], scale: str, preset: str, records: Records) -> list[Claim]:
    precisions = by_precision(records)
    by_setting = {setting: of_most_seeds(each) for setting, each in precisions.items()}
    found: list[Claim] = []
    for name in names:
        if name == "table6":
            found += parameter_claims()
        if name in LANGUAGE_CLAIMS:
            found += language_claims(name, scale, preset, records)
            continue
        cells = {cell.label: cell for cell in ENTRIES[name].at(scale, preset)}
        if name in OTHER_CLAIMS:
            found += OTHER_CLAIMS[name](list(cells.values()), scale, by_setting)
            continue
        if name in SHARES:
            found += shares_claims(name, cells, scale, preset, seeds_by_setting(records.beside(INSIDE)))
            continue
        changed = changed_cells(name, scale, preset)
        wanted = [(number, cells[number.cell]) for number in NUMBERS[name]] if name in NUMBERS else []
        for number, cell in wanted or [(None, cell) for cell in cells.values()]:
            others = {what: precisions.get(other.setting, {}) for what, other in changed[cell.label].items()}
            claim = claim_of(name, cell, number, scale, precisions.get(cell.setting, {}))
            if number is not None and claim.verdict == "differs" and scale == "paper":
                reasons = reasons_of(claim.cell, number, preset, precisions[cell.setting], others)
                claim = replace(claim, explanation="; ".join(reasons))
            found.append(claim)
    return found


def shares_claims(
    name: str, cells: Mapping[str, Cell], scale: str, preset: str, inside: dict[str, list[Record]]
) -> list[Claim]:
    """From what is inside the cells' runs; where that differs, what it is with a change stands beside it."""
    changed = changed_cells(name, scale, preset)
    found: list[Claim] = []
    for share in SHARES[name]:
        claim = share_claim(name, share, inside.get(cells[share.cell].setting, []), is_comparable=scale == "paper")
        if claim.verdict == "differs":
            others = {
                change: shares_of(inside.get(cell.setting, []), share) for change, cell in changed[share.cell].items()
            }
            claim = replace(claim, explanation="; ".join(share_reasons(share, claim.n, others)))
        found.append(claim)
    return found


def language_claims(name: str, scale: str, preset: str, records: Records) -> list[Claim]:
    """These need no cells, which need a prepared text: what is recorded can be shown without it."""
    source = records if name == "fig4" else records.beside(INSIDE)
    runs = [run for each in seeds_by_setting(source).values() for run in each]
    return LANGUAGE_CLAIMS[name](runs, scale, preset)


def claim_of(name: str, cell: Cell, number: Number | None, scale: str, precisions: Precisions) -> Claim:
    """From what is recorded of the cell in each precision; those that do not count are noted."""
    key = "accuracy" if number is None else number.accuracy
    counted = of_most_seeds(precisions)
    runs = [record for record in counted if key in record]
    values = [100 * record[key] for record in runs]
    ours = median_of(values)
    floors = runs[0]["floors"].values() if runs and key == "accuracy" else []
    suffix = TRAIN if key == "train_accuracy" else ""
    tolerance, reason, verdict = judge(number, ours, scale)
    whole = [100 * record["exact_match"] for record in runs if "exact_match" in record]
    notes = [f"whole answers right: {statistics.median(whole):.1f}"] if whole else []
    others = {
        precision: [100 * record[key] for record in each if key in record]
        for precision, each in precisions.items()
        if each is not counted
    }
    if any(others.values()):
        notes.append(f"counted in {precision_of(counted)}")
    notes += [
        f"in {precision} {statistics.median(each):.1f}, {seeds_in_words(len(each))}"
        for precision, each in others.items()
        if each
    ]
    row, column = ENTRIES[name].place(cell.name)
    return Claim(
        name,
        cell.label + suffix,
        None if number is None else number.paper,
        ours,
        tuple(values),
        100 * max(floors) if floors else None,
        tolerance,
        reason,
        verdict,
        note="; ".join(notes),
        whole_answers=median_of(whole) if key == "accuracy" else None,
        place=(row + suffix, column),
        setting=cell.setting,
    )


@dataclass(frozen=True)
class Spent:
    """What the runs behind some claims took: seconds of a device, a population's shared among its seeds.

    Populations that shared a device count each in full, so that it is the most that they can have taken of it.
    """

    device: str
    runs: int
    seconds: float


def spent_on(names: Sequence[str], scale: str, preset: str, records: Records) -> list[Spent]:
    """By device; a run behind several of the names counts once."""
    by_setting = seeds_by_setting(records)
    runs: dict[str, Record] = {}
    for name in names:
        if name in LANGUAGE_CLAIMS:
            chosen = of_one_text((run for each in by_setting.values() for run in each), preset)
        else:
            cells = ENTRIES[name].at(scale, preset)
            chosen = [run for cell in cells for run in by_setting.get(cell.setting, [])]
        runs |= {run["run"]: run for run in chosen if "seconds" in run}
    seconds: dict[str, list[float]] = defaultdict(list)
    for run in runs.values():
        seconds[run["device"]].append(run["seconds"] / run.get("seeds_at_once", 1))
    return [Spent(device, len(each), sum(each)) for device, each in sorted(seconds.items())]


def judge(number: Number | None, ours: float | None, scale: str) -> tuple[str, str, str]:
    """Tolerance, its reason, and the verdict."""
    if number is None:
        return "", "the paper prints no number", without_verdict(ours)
    if scale == "laptop":
        tolerance, reason = f"same side of {LAPTOP_LINE:g}", "a laptop's tasks are smaller than the paper's"
        agrees = ours is not None and (ours >= LAPTOP_LINE) == (number.paper >= LAPTOP_LINE)
    else:
        tolerance, reason = f"{number.tolerance.points:g}", number.tolerance.reason
        agrees = ours is not None and abs(ours - number.paper) <= number.tolerance.points
    return tolerance, reason, verdict_of(ours, agrees)


def shown(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def parameter_claims() -> list[Claim]:
    """Table 6: how many parameters each part of a width-1024 transformer has."""
    found: list[Claim] = []
    for task, paper in TABLE6.items():
        counts = count_parameters(Transformer(), preset_sizes(make_task(task)))
        ours = (counts["token"], counts["position"], counts["unembed"], sum(counts[part] for part in BODY))
        for part, theirs, count in zip(("E_token", "E_pos", "U", "F"), paper, ours, strict=True):
            cell, verdict = f"{task}, {part}", verdict_of(count, count == theirs)
            claim = Claim("table6", cell, theirs, count, (), None, "0", "counts are exact", verdict, place=(task, part))
            found.append(claim if verdict == "reproduced" else replace(claim, explanation=TABLE6_DIFFERS[task]))
    return found
