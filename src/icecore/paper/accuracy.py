"""Claims about accuracies: the paper's number, ours, the tolerance and the verdict."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from icecore.paper.cells import PaperCell, Variation
from icecore.paper.differences import Matches, confirmed_for, explains, percentages, reasons_for
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment
from icecore.paper.numbers import LAPTOP_LINE, KnownReason, Number
from icecore.reporting.claim import (
    Claim,
    Precisions,
    Source,
    around,
    median_of,
    nearest_baseline,
    of_most_seeds,
    precision_of,
    seeds_in_words,
    strictly_judged,
    values_of,
    verdict_of,
    without_verdict,
)
from icecore.sweeps.names import CellName

TRAIN = " (train)"  # label suffix: accuracy on the training set


def accuracy_claims(
    experiment: Experiment,
    evidence: Evidence,
    printed: Sequence[Number] = (),
    known: Mapping[CellName, KnownReason] | None = None,
) -> list[Claim]:
    """Return a claim per number the paper prints; if it prints none, a claim per cell."""
    wanted, found = measured_claims(experiment, evidence, printed)
    differing = differing_cells(experiment, evidence, wanted, found)
    matches = [(cell.name, matching(number, changed)) for _, number, cell, changed in differing]
    for place, number, cell, changed in differing:
        reason, precisions = (known or {}).get(cell.name), evidence.precisions(cell)
        confirmed = confirmed_for(experiment.name, found[place].cell, cell.name, matches)
        notes = reasons_for(number, reason, evidence.preset, precisions, changed, confirmed)
        found[place] = replace(found[place], explanation="; ".join(notes))
    return strictly_judged(found)


def matches_of(experiment: Experiment, evidence: Evidence, printed: Sequence[Number]) -> Matches:
    """Return the cells whose numbers differ, each with the changes that give the paper's number."""
    differing = differing_cells(experiment, evidence, *measured_claims(experiment, evidence, printed))
    return [(cell.name, matching(number, changed)) for _, number, cell, changed in differing]


Wanted = list[tuple[Number | None, PaperCell]]
Differing = list[tuple[int, Number, PaperCell, dict[Variation, Precisions]]]  # the place among the claims comes first


def measured_claims(
    experiment: Experiment, evidence: Evidence, printed: Sequence[Number]
) -> tuple[Wanted, list[Claim]]:
    cells = {cell.name: cell for cell in experiment.of(evidence)}
    wanted: Wanted = [(number, cells[number.cell]) for number in printed] or [(None, cell) for cell in cells.values()]
    return wanted, [claim_of(experiment, cell, number, evidence) for number, cell in wanted]


def differing_cells(experiment: Experiment, evidence: Evidence, wanted: Wanted, found: Sequence[Claim]) -> Differing:
    """Return the numbers that differ, with the records of their variations; at a laptop's scale none."""
    if evidence.scale != "paper":
        return []
    return [
        (place, number, cell, changed_runs(experiment, cell, evidence))
        for place, (number, cell) in enumerate(wanted)
        if number is not None and found[place].verdict == "differs"
    ]


def changed_runs(experiment: Experiment, cell: PaperCell, evidence: Evidence) -> dict[Variation, Precisions]:
    return {variation: evidence.precisions(variation.cell) for variation in experiment.changed(cell, evidence)}


def matching(number: Number, changed: Mapping[Variation, Precisions]) -> list[str]:
    """Return the changes that the authors may have made and that give the paper's number."""
    return [
        variation.change
        for variation, each in changed.items()
        if variation.can_explain and explains(percentages(of_most_seeds(each), number), number)
    ]


def claim_of(experiment: Experiment, cell: PaperCell, number: Number | None, evidence: Evidence) -> Claim:
    """Return a cell's claim over all data seeds, from the precision with the most seeds; others go into the note."""
    key = "accuracy" if number is None else number.accuracy
    draws = [(draw, [run for run in counted if key in run]) for draw, counted in evidence.draws(cell)]
    runs = [run for _, each in draws for run in each]
    sources = tuple(Source.of(draw.label, each, lambda run: 100 * run[key]) for draw, each in draws if each)
    values = values_of(sources)
    ours = median_of(values)
    baselines = runs[0]["baselines"].values() if runs and key == "accuracy" else []
    suffix = TRAIN if key == "train_accuracy" else ""
    tolerance, reason, verdict = judge(number, ours, evidence.scale)
    whole = [100 * record["exact_match"] for record in runs if "exact_match" in record]
    row, column = experiment.place(cell.name)
    allowed, null = None, None
    if number is not None and evidence.scale == "paper":
        allowed = around(number.paper, number.tolerance.points)
        rules = runs[0]["baselines"] if baselines else {}
        null = nearest_baseline(rules, number.paper, number.tolerance.points)
    by_data_seed = tuple(source.values for source in sources) if len(sources) > 1 else ()
    notes = [f"over {len(by_data_seed)} data seeds"] if by_data_seed else []
    return Claim(
        experiment.name,
        cell.label + suffix,
        None if number is None else number.paper,
        ours,
        values,
        100 * max(baselines) if baselines else None,
        tolerance,
        reason,
        verdict,
        note="; ".join([*notes, *notes_on(evidence.precisions(cell), key, whole)]),
        exact_match=median_of(whole) if key == "accuracy" else None,
        place=(row + suffix, column),
        setting=cell.setting,
        allowed=allowed,
        null=null,
        by_data_seed=by_data_seed,
        sources=sources,
    )


def notes_on(precisions: Precisions, key: str, whole: Sequence[float]) -> list[str]:
    counted = of_most_seeds(precisions)
    notes = [f"exact match: {statistics.median(whole):.1f}"] if whole else []
    others = {
        precision: [100 * record[key] for record in each if key in record]
        for precision, each in precisions.items()
        if each is not counted
    }
    if any(others.values()):
        notes.append(f"counted in {precision_of(counted)}")
    return notes + [
        f"in {precision} {statistics.median(each):.1f}, {seeds_in_words(len(each))}"
        for precision, each in others.items()
        if each
    ]


def judge(number: Number | None, ours: float | None, scale: str) -> tuple[str, str, str]:
    """Return the tolerance, its reason, and the verdict."""
    if number is None:
        return "", "the paper prints no number", without_verdict(ours)
    if scale == "laptop":
        tolerance, reason = f"same side of {LAPTOP_LINE:g}", "laptop tasks are smaller than the paper's"
        agrees = ours is not None and (ours >= LAPTOP_LINE) == (number.paper >= LAPTOP_LINE)
    else:
        tolerance, reason = f"{number.tolerance.points:g}", number.tolerance.reason
        agrees = ours is not None and abs(ours - number.paper) <= number.tolerance.points
    return tolerance, reason, verdict_of(ours, agrees)
