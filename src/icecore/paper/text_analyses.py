"""Measurements inside stored runs, read from `results/analyses/`: one file per seed.

Written by `icecore analyze RUN --what modular,attention,causal --seed SEED --out FILE` from weights of the preset
`released`; the file's name ends in the analysis and the seed, such as `-causal-seed1.json`. They count for another
preset only if its cell has the same settings.
"""

from pathlib import Path
from typing import Any

from icecore.paper.evidence import Evidence
from icecore.paper.scales import SCALES
from icecore.reporting.claim import median_of
from icecore.store.files import read_json
from icecore.sweeps.names import CellName

TEN = 10
Pair = tuple[dict[str, float], dict[str, float]]  # trained and untrained


def analyses_of(evidence: Evidence, task: str, pattern: str) -> list[dict[str, Any]]:
    """Return the stored analyses of Random 1024, by seed."""
    presets = ("released", evidence.preset)
    first, second = (SCALES["paper"].cell(CellName(task, "Random", 1024), preset) for preset in presets)
    folder = evidence.records.path.parent / "analyses"
    if evidence.scale != "paper" or not folder.is_dir() or first.setting != second.setting:
        return []
    return [read_json(path)["analyses"] for path in sorted(Path(folder).glob(pattern))]


def attention_scores(evidence: Evidence) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Return the best head's value-to-marker and query-to-value attention, trained and untrained, by seed."""
    found = analyses_of(evidence, "needle", "needle-1024-attention-seed*.json")
    return [(scores_of(one["attention"], "trained"), scores_of(one["attention"], "untrained")) for one in found]


def scores_of(attention: dict[str, Any], which: str) -> tuple[float, float]:
    """Return the first layer's best head from values to markers, and the second's from the query to its value."""
    return max(attention[which]["value_to_marker"][0]), max(attention[which]["query_to_value"][1])


def modular_metrics(evidence: Evidence) -> list[Pair]:
    """Return circularity, gradient symmetricity and distance irrelevance, trained and untrained, by seed."""
    found = analyses_of(evidence, "modular-addition", "modular-addition-1024-modular-seed*.json")
    return [(one["modular"]["trained"], one["modular"]["untrained"]) for one in found]


def kept_accuracy(evidence: Evidence, task: str) -> tuple[list[float], float | None]:
    """Return each seed's accuracy in % when the residual stream keeps ten directions, and the untrained body's ten."""
    values, untrained = [], []
    seeds = [analyses_of(evidence, task, f"{task}-1024{which}.json") for which in ("", "-causal-seed*")]
    for one in [each for stored in seeds for each in stored]:
        for curve in one.get("causal", {}).get("curves", []):
            if curve["mode"] == "keep" and TEN in curve["counts"]:
                accuracy = 100 * curve["accuracy"][curve["counts"].index(TEN)]
                if curve["basis"] in ("directions", "untrained"):
                    (values if curve["basis"] == "directions" else untrained).append(accuracy)
    return values, median_of(untrained)
