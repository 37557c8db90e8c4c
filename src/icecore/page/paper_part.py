"""The paper's part of a page: per table or figure and preset, the claims with their records, charts and provenance."""

import base64
import functools
import io
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from icecore.paper import BEYOND, EXPERIMENTS, evidence_of
from icecore.paper.claim_table import row_of
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment, Figure
from icecore.paper.findings import findings
from icecore.paper.scales import PRESETS, SCALES
from icecore.paper.summary import is_judged
from icecore.reporting.claim import Claim, values_of
from icecore.store.record_schema import is_valid
from icecore.store.records import Record, Records, key_of

SHOWN = ("paper", "ours", "n", "spread", "interval", "baseline", "null")  # of `claim_table.row_of`, in its order
RECONSTRUCTED = "reconstructed"  # the preset that may explain what differs
OnExperiment = Callable[[str], None]


def paper_part(records: Records, scale: str, on_experiment: OnExperiment) -> dict[str, Any]:
    """Return all tables and figures at a scale, with every preset."""
    evidence = {preset: evidence_of(records, scale, preset) for preset in PRESETS}
    claims: dict[str, dict[str, list[Claim]]] = {preset: {} for preset in PRESETS}
    found = []
    for name, experiment in EXPERIMENTS.items():
        on_experiment(name)
        for preset, own in evidence.items():
            claims[preset][name] = experiment.claims_of(own)
        presets = {preset: with_preset(experiment, own, claims[preset][name]) for preset, own in evidence.items()}
        found.append(
            {
                "name": name,
                "heading": experiment.heading,
                "title": experiment.title,
                "beyond": experiment in BEYOND,
                "missing": experiment.missing,
                "analysis": experiment.analysis,
                "command": f"icecore reproduce {name} --scale {scale}" if experiment.cells is not None else "",
                "presets": presets,
            }
        )
    sentences = {preset: findings(own, scale, other_than(preset, claims)) for preset, own in claims.items()}
    part = {"scale": scale, "folder": records.path.parent.name, "presets": PRESETS}
    return part | {"findings": sentences, "experiments": found}


def other_than(preset: str, claims: dict[str, dict[str, list[Claim]]]) -> dict[str, list[Claim]] | None:
    """Return the claims that those of the first preset are compared with."""
    return claims[RECONSTRUCTED] if preset == PRESETS[0] else None


def with_preset(experiment: Experiment, evidence: Evidence, claims: Sequence[Claim]) -> dict[str, Any]:
    """Return an experiment's claims and charts with one preset; where nothing was run, only the number of claims."""
    preset = evidence.preset
    undecided = [claim for claim in claims if is_judged(claim) and claim.verdict == "undecided"]
    counts = {
        "all": Counter(claim.shown_verdict for claim in claims),
        "judged": Counter(claim.shown_verdict for claim in claims if is_judged(claim)),
        "few": sum(claim.interval is None for claim in undecided),
        "inside": sum(is_inside(claim) for claim in undecided),
    }
    if preset != PRESETS[0] and all(claim.ours is None for claim in claims):
        return {"counts": counts}
    records = {key_of(run): run for each in evidence.by_setting.values() for runs in each.values() for run in runs}
    behind = [records[key] for claim in claims for source in claim.sources for key in source.runs if key in records]
    shown = [claim for claim in claims if preset == PRESETS[0] or claim.ours is not None]
    return {
        "counts": counts,
        "claims": [{"shown": {}} | compact(claim_json(claim)) for claim in shown],
        "charts": [drawn for figure in experiment.figures.values() if (drawn := chart_json(figure, evidence))],
        "made_by": made_by(behind),
    }


def is_inside(claim: Claim) -> bool:
    """Tell whether our number is within the tolerance, whatever its interval."""
    return claim.allowed is not None and claim.ours is not None and claim.allowed[0] <= claim.ours <= claim.allowed[1]


def claim_json(claim: Claim) -> dict[str, Any]:
    """Return a claim as the page shows it; of one without a number, such as "> 64", the runs and the note."""
    texts: dict[str, Any] = dict(zip(SHOWN, row_of(claim)[2:], strict=False))
    texts.pop("n")
    shown = {
        "cell": claim.cell,
        "row": claim.place and claim.place[0],
        "column": claim.place and claim.place[1],
        "verdict": claim.shown_verdict,
        "shown": compact(texts),
        "note": claim.remarks,
    }
    if claim.verdict == "not run":
        return shown
    shown |= {"n": claim.n, "sources": [compact(asdict(source)) for source in claim.sources]}
    if claim.ours is None:
        return shown
    return shown | {
        "ours": claim.ours,
        "paper": claim.paper,
        "digits": claim.digits,
        "values": () if claim.values == values_of(claim.sources) else claim.values,
        "baseline": claim.baseline,
        "null": claim.null and asdict(claim.null),
        "tolerance": claim.tolerance,
        "reason": claim.reason,
        "interval": claim.interval,
        "allowed": claim.allowed,
        "p": claim.p,
        "exact": claim.exact_match,
        "worst": claim.is_worst,
        "draws": len(claim.by_data_seed),
        "compared": claim.compared,
    }


def compact(value: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is empty; a zero is not."""
    return {name: each for name, each in value.items() if each or (type(each) in (int, float))}


def chart_json(figure: Figure, evidence: Evidence) -> dict[str, Any] | None:
    """Return a figure as a chart; one without a chart as a drawing; None without points."""
    points = figure.points(evidence)
    if not points:
        return None
    if figure.chart is not None:
        return asdict(figure.chart(points, figure.title))
    stream = io.BytesIO()
    figure.draw(points, figure.title).savefig(stream, format="svg", metadata={"Date": None})
    return {"title": figure.title, "drawing": base64.b64encode(stream.getvalue()).decode()}


def made_by(runs: Iterable[Record]) -> list[dict[str, Any]]:
    """Return the commands behind some runs, with their devices, commits and time; each run counts once."""
    found: dict[str, dict[str, Any]] = {}
    for run in {run["run"]: run for run in runs}.values():
        one = found.setdefault(
            str(run.get("command", "unknown")), {"runs": 0, "seconds": 0.0, "devices": set(), "commits": set()}
        )
        one["runs"] += 1
        one["seconds"] += run.get("seconds", 0.0) / run.get("seeds_at_once", 1)
        one["devices"].add(run["device"])
        one["commits"].add(str(run.get("commit", "unknown")))
    return [
        {"command": command, **one, "devices": sorted(one["devices"]), "commits": sorted(one["commits"])}
        for command, one in sorted(found.items(), key=lambda item: -item[1]["runs"])
    ]


def scales_of(records: Records) -> list[str]:
    """Return the scales whose cells were run. Texts have no scale of their own: alone they count as a laptop's.

    At a laptop's scale language models have no verdict, so none is given by mistake.
    """
    runs = [run for run in records.by_run().values() if is_valid(run)]
    recorded = {run["setting"] for run in runs}
    if not recorded:
        return []
    found = [scale for scale in SCALES if recorded & (paper_settings(scale) | own_settings(records, scale))]
    return found or (["laptop"] if any(run["config"]["task"]["name"] == "language" for run in runs) else [])


@functools.cache
def paper_settings(scale: str) -> frozenset[str]:
    """Return the settings of all cells that need no text, with every preset; but not of those found by their runs."""
    experiments = [
        experiment for experiment in EXPERIMENTS.values() if not experiment.needs_text and experiment.runs is None
    ]
    return frozenset(
        cell.setting for experiment in experiments for preset in PRESETS for cell in experiment.at(scale, preset)
    )


def own_settings(records: Records, scale: str) -> frozenset[str]:
    """Return the settings of recorded runs of experiments that find their own, but for those of a text."""
    evidence = evidence_of(records, scale)
    experiments = [
        experiment for experiment in EXPERIMENTS.values() if not experiment.needs_text and experiment.runs is not None
    ]
    return frozenset(run["setting"] for experiment in experiments for run in experiment.runs_of(evidence))
