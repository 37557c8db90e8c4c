"""Transplant: is a body trained on another task a better reservoir than a random one? Not in the paper.

Bodies of full training on each of the four tasks are frozen, and new embeddings train around them on each of the four.
A random body is the control, and on the diagonal a body meets its own task again. `transplant-language` adds a body
trained on a text. Each cell takes its best of two rates on validation items; on the diagonal the body has seen those.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from icecore.paper.cells import PaperCell
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment, Figure
from icecore.paper.language import language_cell
from icecore.paper.origins import MATCHED, WIDTHS, changed_cell, matched_cell
from icecore.paper.scales import FOUR, Scale
from icecore.paper.transplant_tables import (
    LANGUAGE,
    RANDOM,
    Moved,
    differences,
    draw_moved,
    heat,
    moved_table,
    outcomes,
)
from icecore.reporting.claim import Claim, Source, median_of, percentage, without_verdict
from icecore.reporting.table import Table
from icecore.store.records import Record
from icecore.sweeps.names import CellName

if TYPE_CHECKING:
    from icecore.sweeps.cells import Cell

RATES = {"paper": (1e-3, 5e-3), "laptop": (6e-3, 2e-2)}
LAYERS, HEADS = 2, 4  # of all bodies
BODIES = (RANDOM, *FOUR)


def name_of(task: str, body: str, width: int) -> CellName:
    return CellName(task, "Random", width, variant="random body" if body == RANDOM else f"body of {body}")


def cells(scale: Scale, preset: str) -> list[PaperCell]:
    return [
        moved_cell(scale, preset, task, body, width) for width in WIDTHS[scale.name] for body in BODIES for task in FOUR
    ]


def language_cells(scale: Scale, preset: str) -> list[PaperCell]:
    return [moved_cell(scale, preset, task, LANGUAGE, width) for width in WIDTHS[scale.name] for task in FOUR]


def source_cell(scale: Scale, preset: str, body: str, width: int) -> PaperCell:
    """Return the cell of full training that a body comes from."""
    if body != LANGUAGE:
        return matched_cell(scale, preset, body, "Normal", width)
    base = language_cell(scale, "Normal", width, LAYERS, preset)
    name = replace(base.name, variant=f"{MATCHED}, {HEADS} heads")

    def as_others(cell: "Cell") -> "Cell":
        return replace(cell, model=replace(cell.model, heads=HEADS, init=MATCHED))  # type: ignore[call-arg]

    return changed_cell(base, name, as_others)


def moved_cell(scale: Scale, preset: str, task: str, body: str, width: int) -> PaperCell:
    source = None if body == RANDOM else source_cell(scale, preset, body, width)

    def move(plain: "Cell") -> "Cell":
        from icecore.sweeps.cells import Origin

        rates = RATES[scale.name]
        origin = None if source is None else Origin(source.made, "body")
        return replace(plain, training={**plain.training, "lr": rates[0]}, rates=rates, origin=origin)

    return changed_cell(matched_cell(scale, preset, task, "Random", width), name_of(task, body, width), move)


def moved(evidence: Evidence) -> list[Moved]:
    """Return the recorded cells, those of language by where their bodies come from: their settings need its text."""
    found = []
    for width in WIDTHS[evidence.scale]:
        own = {cell.name: evidence.runs(cell) for cell in TRANSPLANT.of(evidence) if cell.name.width == width}
        for body in BODIES:
            for task in FOUR:
                if runs := own[name_of(task, body, width)]:
                    found.append(Moved(task, body, width, tuple(runs)))
        for task in FOUR:
            if runs := of_language(evidence, task, width):
                found.append(Moved(task, LANGUAGE, width, tuple(runs)))
    return found


def of_language(evidence: Evidence, task: str, width: int) -> list[Record]:
    """Return the runs around bodies of language models; of several settings, those with the most seeds."""
    by_setting: dict[str, list[Record]] = {}
    for run in evidence.all_runs:
        config = run["config"]
        where = config.get("start", {}).get("where", {})
        is_ours = config["task"]["name"] == task and config["model"]["settings"].get("width") == width
        if is_ours and where.get("task") == LANGUAGE and config.get("trainable") == "embeddings":
            by_setting.setdefault(run["setting"], []).append(run)
    return max(by_setting.values(), key=len, default=[])


def claims(experiment: Experiment, evidence: Evidence) -> list[Claim]:
    """Return the accuracy of each body on each task."""
    known = {(moved.width, moved.body, moved.task): moved for moved in moved_by(experiment, evidence)}
    found = []
    for width in WIDTHS[evidence.scale]:
        for body in BODIES if experiment.name == TRANSPLANT.name else (LANGUAGE,):
            for task in FOUR:
                own = known.get((width, body, task))
                values = () if own is None else own.values
                ours = median_of(values)
                found.append(
                    Claim(
                        experiment.name,
                        str(name_of(task, body, width)),
                        None,
                        ours,
                        values,
                        None if own is None else own.baseline,
                        "",
                        "not in the paper",
                        without_verdict(ours),
                        place=(f"{body}, width {width}", task),
                        sources=() if own is None else (Source.of(name_of(task, body, width), own.runs, percentage),),
                    )
                )
    return found


def moved_by(experiment: Experiment, evidence: Evidence) -> list[Moved]:
    """Return what belongs to an experiment: the body of language, or the others."""
    return [one for one in moved(evidence) if (one.body == LANGUAGE) == (experiment.name != TRANSPLANT.name)]


def runs(experiment: Experiment, evidence: Evidence) -> list[Record]:
    return [run for one in moved_by(experiment, evidence) for run in one.runs]


def tables(_experiment: Experiment, evidence: Evidence) -> list[Table]:
    found = moved(evidence)
    widths = dict.fromkeys(one.width for one in found)
    return [*(moved_table(found, width) for width in widths), differences(found), outcomes(found)]


TRANSPLANT = Experiment(
    "transplant",
    "is a trained body a better reservoir than a random one? (not in the paper)",
    cells,
    claims,
    {
        "transplant": Figure(
            "New embeddings around frozen bodies: test accuracy",
            lambda evidence: heat(moved(evidence)),
            draw_moved,
        )
    },
    runs=runs,
    has_rates=True,
    tables=tables,
)
TRANSPLANT_LANGUAGE = Experiment(
    "transplant-language",
    "the same with a body trained on a text (not in the paper)",
    language_cells,
    claims,
    runs=runs,
    needs_text=True,
    has_rates=True,
)
