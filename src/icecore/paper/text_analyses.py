"""Claims of the text about the inside of stored runs, read from `results/analyses/`: one file per seed.

Written by `icecore analyze RUN --what modular,attention,causal --seed SEED --out FILE` from weights of the preset
`released`; the file's name ends in the analysis and the seed, such as `-causal-seed1.json`. They count for another
preset only if its cell has the same settings.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from icecore.paper.evidence import Evidence
from icecore.paper.numbers import BETWEEN
from icecore.paper.rule import Rule
from icecore.paper.scales import FOUR, SCALES
from icecore.reporting.claim import Claim, Source, median_of
from icecore.reporting.verdict import Null
from icecore.store.files import read_json
from icecore.sweeps.names import CellName

TEN = 10
Measured = tuple[list[Source], float | None]  # by seed, and the median of the untrained bodies


def analyses_of(evidence: Evidence, task: str, pattern: str) -> dict[str, dict[str, Any]]:
    """Return the stored analyses of Random 1024 by the name of their file, in the order of the seeds."""
    presets = ("released", evidence.preset)
    first, second = (SCALES["paper"].cell(CellName(task, "Random", 1024), preset) for preset in presets)
    folder = evidence.records.path.parent / "analyses"
    if evidence.scale != "paper" or not folder.is_dir() or first.setting != second.setting:
        return {}
    return {path.stem: read_json(path)["analyses"] for path in sorted(Path(folder).glob(pattern))}


def measured(found: dict[str, dict[str, Any]], number: Callable[[dict[str, Any], str], float]) -> Measured:
    """Return a number of each stored analysis, of the trained and of the untrained bodies."""
    sources = [Source(name, (number(one, "trained"),), analysis=name) for name, one in found.items()]
    return sources, median_of([number(one, "untrained") for one in found.values()])


def attention_score(evidence: Evidence, step: int) -> Measured:
    """Return the attention of the best head: in layer 1 from values to markers, in layer 2 from the query to its value.

    `step` is 0 or 1.
    """
    key = ("value_to_marker", "query_to_value")[step]
    found = analyses_of(evidence, "needle", "needle-1024-attention-seed*.json")
    return measured(found, lambda one, which: max(one["attention"][which][key][step]))


def modular_metric(evidence: Evidence, key: str) -> Measured:
    """Return circularity, gradient symmetricity or distance irrelevance."""
    found = analyses_of(evidence, "modular-addition", "modular-addition-1024-modular-seed*.json")
    return measured(found, lambda one, which: one["modular"][which][key])


def kept_accuracy(evidence: Evidence, task: str) -> Measured:
    """Return each seed's accuracy in % when the residual stream keeps ten directions, and the untrained body's ten."""
    sources, untrained = [], []
    for pattern in (f"{task}-1024.json", f"{task}-1024-causal-seed*.json"):
        for name, one in analyses_of(evidence, task, pattern).items():
            for curve in one.get("causal", {}).get("curves", []):
                if curve["mode"] == "keep" and TEN in curve["counts"]:
                    accuracy = 100 * curve["accuracy"][curve["counts"].index(TEN)]
                    if curve["basis"] == "directions":
                        sources.append(Source(name, (accuracy,), analysis=name))
                    elif curve["basis"] == "untrained":
                        untrained.append(accuracy)
    return sources, median_of(untrained)


def induction(evidence: Evidence) -> list[Claim]:
    """Figure 2: a head of layer 1 looks from values to their markers, one of layer 2 from the query to its value."""
    found = []
    wanted = (("layer 1, value to marker", 0), ("layer 2, query to value", 1))
    for label, step in wanted:
        sources, untrained = attention_score(evidence, step)
        least = 0.5
        null = None if untrained is None else Null("untrained body", untrained, untrained >= least)
        reason = "more attention than all other tokens together; the figure shows maps, no number"
        rule = Rule(
            f"induction head: {label}",
            "mean attention of the best head, needle, Random 1024",
            least,
            math.inf,
            reason,
            null,
            digits=3,
        )
        found.append(rule.of_seeds(sources))
    return found


def circles(evidence: Evidence) -> list[Claim]:
    """Figure 3: circular embeddings, with gradient symmetricity and distance irrelevance of .88."""
    reason = "a tenth of the scale from 0 to 1; the paper gives one number and no spread"
    found = []
    for key, paper, least, most in (
        ("circularity", None, 0.5, math.inf),
        ("gradient_symmetricity", 0.88, 0.78, 0.98),
        ("distance_irrelevance", 0.88, 0.78, 0.98),
    ):
        sources, untrained = modular_metric(evidence, key)
        null = None if untrained is None else Null("untrained body", untrained, least <= untrained <= most)
        why = reason if paper else "most of each component lies in one frequency; the paper gives no number"
        rule = Rule(
            f"circles: {key.replace('_', ' ')}",
            "embeddings of modular addition, Random 1024",
            least,
            most,
            why,
            null,
            paper,
            digits=3,
        )
        found.append(rule.of_seeds(sources))
    return found


def ten_directions(evidence: Evidence) -> list[Claim]:
    """Section 6: low-dimensional subspaces are sufficient for solving the algorithmic tasks."""
    found = []
    for task in FOUR:
        sources, untrained = kept_accuracy(evidence, task)
        rule = Rule(
            f"ten directions enough: {task}",
            "accuracy of Random 1024 when the top ten are kept",
            100 - BETWEEN.points,
            math.inf,
            "near-perfect; the paper gives no number",
            None if untrained is None else Null("ten of the untrained body", untrained, untrained >= 95),
        )
        found.append(rule.of_seeds(sources))
    return found
