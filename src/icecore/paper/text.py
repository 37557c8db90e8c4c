"""Claims of the paper's text that no table has, each with a measurement from records or stored analyses.

The text gives few numbers, so most claims are rules. Their ranges follow from tolerances that were fixed before any
run (`numbers.py`, `fig4.py`, `fig6.py`) or from the paper's own numbers; each has its reason. They were written after
the runs of the preset `released`, so they were not fixed blindly there. A claim whose runs do not exist is "not run",
with the command that makes them.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from icecore.paper import fig6, table1, table2, table4, table5, table7, table9
from icecore.paper.cells import PaperCell
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment
from icecore.paper.fig4 import trained
from icecore.paper.numbers import BETWEEN, BIMODAL, LAPTOP_LINE, SOLVED
from icecore.paper.rule import Rule
from icecore.paper.scales import FOUR, SCALES, Scale
from icecore.paper.shares import Share, source_of
from icecore.paper.text_analyses import circles, induction, ten_directions
from icecore.reporting.claim import Claim, Source, percentage, strictly_judged
from icecore.reporting.verdict import Null, combined
from icecore.store.records import Record
from icecore.sweeps.names import CellName

RISE = math.sqrt(fig6.SHARP_RISE[0])
ENTROPIES = (2.89, 3.02)
FROZEN_LSTM = "frozen LSTM"


def cells(scale: Scale, preset: str) -> list[PaperCell]:
    """Return the cells that no table has: an LSTM with a frozen body."""
    return [scale.cell(CellName(task, "Random", 1024, variant=FROZEN_LSTM), preset, body="lstm") for task in FOUR]


def accuracies(cells: Sequence[PaperCell], evidence: Evidence) -> dict[CellName, Source]:
    return {cell.name: Source.of(cell.name, evidence.runs(cell), percentage) for cell in cells}


def restarts(evidence: Evidence) -> list[Claim]:
    """Section 4.2: perfect accuracy on all four tasks consistently across restarts."""
    scale = SCALES[evidence.scale]
    least = 100 - SOLVED.points if evidence.scale == "paper" else LAPTOP_LINE
    found = []
    for task in FOUR:
        cell = scale.cell(CellName(task, "Random", 1024), evidence.preset)
        runs = evidence.runs(cell)
        rule = Rule(
            f"consistent restarts: {task}",
            "accuracy of the worst restart of Random 1024",
            least,
            math.inf,
            SOLVED.reason,
        )
        if runs:
            best = 100 * max(runs[0]["baselines"].values(), default=0.0)
            rule = replace(rule, null=Null("best baseline", best, best >= least))
        found.append(rule.of_seeds([Source.of(cell.name, runs, percentage)] if runs else [], is_worst=True))
    return found


def lstms(experiment: Experiment, evidence: Evidence) -> list[Claim]:
    """Table 1: even outperform fully trained LSTMs. Section 7: but not LSTM sequence models."""
    known = accuracies(table1.TABLE1.of(evidence), evidence)
    task = "decimal-addition"
    equal = Null("equal accuracies", 0.0, False)
    better = Rule(
        f"better than LSTMs: {task}",
        "Random 1024 minus LSTM 1024, points",
        BIMODAL.points,
        math.inf,
        "the one task that the paper's LSTM does not solve, by more than its tolerance",
        equal,
        command=f"icecore reproduce table1 --scale paper --seeds 5 --only '{task}, LSTM 1024'",
    )
    found = [better.of_cells("difference", [known[CellName(task, kind, 1024)] for kind in ("Random", "LSTM")])]
    frozen = accuracies(experiment.of(evidence), evidence)
    for cell, source in frozen.items():
        rule = Rule(
            f"frozen LSTM fails: {cell.task}",
            "accuracy of an LSTM whose embeddings alone are trained",
            -math.inf,
            100 - SOLVED.points,
            "not solved, by the tolerance of solved tasks",
            Null("no learning", 0.0, True),
            command=f"icecore reproduce text --scale {evidence.scale} --seeds 5 --only '{cell}'",
        )
        found.append(rule.of_seeds([source] if source.values else []))
    return found


def variants(evidence: Evidence) -> list[Claim]:
    """Section 4.2: all variants fail on at least one task, and the unembedding alone on every one."""
    known = accuracies(table2.TABLE2.of(evidence), evidence)
    failed, reason = 100 - SOLVED.points, "not perfect, by the tolerance of solved tasks"
    null = Null("no learning", 0.0, True)
    found = []
    for part, _ in table2.COLUMNS:
        rule = Rule(f"variant fails: {part}, worst task", "accuracy on its worst task", -math.inf, failed, reason, null)
        found.append(rule.of_cells("least", [known[CellName(task, part)] for task in FOUR]))
    near = Rule(
        "variant fails: U only, best task",
        "U only is near-perfect on no task",
        -math.inf,
        100 - BETWEEN.points,
        BETWEEN.reason,
        null,
    )
    return [*found, near.of_cells("most", [known[CellName(task, "U only")] for task in FOUR])]


def shares_at(printed: Sequence[Share], kind: str, task: str, runs: dict[CellName, list[Record]]) -> list[Source]:
    """Return each seed's share in ten directions at the embedding and each layer."""
    own = [one for one in printed if (one.cell.task, one.cell.kind, one.kind) == (task, kind, "directions")]
    return [replace(made := source_of(runs.get(one.cell, []), one), cell=f"{made.cell}, {one.column}") for one in own]


def inside_of(experiment: Experiment, evidence: Evidence) -> dict[CellName, list[Record]]:
    return {cell.name: evidence.inside(cell) for cell in experiment.of(evidence)}


def concentration(evidence: Evidence) -> list[Claim]:
    """Section 6.1: on memorization and language Random is much more concentrated; more than 30 % in language."""
    language = table5.inside_runs(evidence)
    found = []
    for task, printed, runs, command in (
        ("memorization", table4.SHARES, inside_of(table4.TABLE4, evidence), "table4 --only memorization"),
        ("language", table5.SHARES, language, "table5"),
    ):
        papers = [
            [one.paper for one in printed if (one.cell.task, one.cell.kind, one.kind) == (task, kind, "directions")]
            for kind in ("Random", "Normal")
        ]
        least = (sum(papers[0]) - sum(papers[1])) / len(papers[0]) / 2
        rule = Rule(
            f"more concentrated: {task}",
            "mean share in ten directions, Random minus Normal, points",
            least,
            math.inf,
            'half of the paper\'s own difference, which it calls "much more"',
            Null("equal shares", 0.0, least <= 0),
            command=f"icecore reproduce {command} --scale paper --seeds 5",
        )
        both = [each for kind in ("Random", "Normal") for each in shares_at(printed, kind, task, runs)]
        found.append(rule.of_cells("mean difference", both))
    thirty = Rule(
        "more than 30 %: language, Random 512x4",
        "least share in ten directions of all layers",
        30.0,
        math.inf,
        "the paper's own bound, which each of its five numbers keeps",
        Null("the paper's Normal", 17.6, False),
        command="icecore reproduce table5 --scale paper --seeds 5",
    )
    return [*found, thirty.of_cells("least", shares_at(table5.SHARES, "Random", "language", language))]


def narrower(evidence: Evidence) -> list[Claim]:
    """Appendix E: generally more variance is in the top directions of narrower models."""
    narrow, wide = inside_of(table7.TABLE7, evidence), inside_of(table4.TABLE4, evidence)
    pairs = [(task, kind) for task in table4.TASKS[1:] for kind in ("Random", "Normal")]
    first = [each for task, kind in pairs for each in shares_at(table7.SHARES, kind, task, narrow)]
    second = [each for task, kind in pairs for each in shares_at(table4.SHARES, kind, task, wide)]
    rule = Rule(
        "narrower, more variance in ten",
        "places of Tables 4 and 7 with more at width 512 than at 1024, % of 18",
        200 / 3,
        math.inf,
        '"generally": two of three places',
        Null("a coin per place", 50.0, False),
        command="icecore reproduce table4 table7 --scale paper --seeds 5",
    )
    return [rule.of_cells("percent above", [*first, *second])]


def imitation(evidence: Evidence) -> list[Claim]:
    """Section 6.2: the error rises sharply from 12 over 16 to 32. Appendix D.2.2: the targets' entropies."""
    found, reason = [], "the square root of Figure 6's threshold for both steps together"
    for preset in dict.fromkeys((evidence.preset, "paper")):
        points = fig6.imitations_of(replace(evidence, preset=preset))
        for student in dict.fromkeys(point.student for point in points):
            own = {p.target_width: p for p in points if (p.kind, p.student) == ("Random", student)}
            for low, high in ((12, 16), (16, 32)):
                rule = Rule(
                    f"rise of Figure 6: {student}, {low} to {high}",
                    "ratio of the KL divergences of Random students",
                    RISE,
                    math.inf,
                    reason,
                    Null("equal divergences", 1.0, False),
                    digits=2,
                    command=f"icecore reproduce fig6 --scale paper --preset {preset} --seeds 5",
                )
                found.append(rule.of_cells("ratio", [own[high].source, own[low].source]))
    points = fig6.imitations_of(evidence)
    targets = {p.target_width: p for p in points if "uniform" in p.baselines}
    rule = Rule(
        "entropy of imitation targets",
        "nats; one target per width",
        *ENTROPIES,
        "the paper's own range",
        Null("uniform outputs", math.log(512), False),
        digits=2,
    )
    return [*found, rule.of_seeds(list(map(entropy_of, targets.values())))]


def entropy_of(point: fig6.Imitated) -> Source:
    """Return the entropy of a target's outputs, which the record of each of its students has."""
    source = point.source
    return Source(source.cell, (math.log(512) - point.baselines["uniform"],), source.runs[:1])


def linearized(evidence: Evidence) -> list[Claim]:
    """Appendix G: large performance gaps between linearized and normal transformers."""
    scale, known = SCALES[evidence.scale], accuracies(table9.TABLE9.of(evidence), evidence)
    found = []
    for task in FOUR[1:]:
        usual = accuracies([scale.cell(CellName(task, "Normal", 512), evidence.preset)], evidence)
        rule = Rule(
            f"linearized far behind: {task}",
            "Normal 512 minus linearized Normal 512, points",
            2 * BETWEEN.points,
            math.inf,
            "twice the tolerance of an unsolved task",
            Null("equal accuracies", 0.0, False),
            command=f"icecore reproduce fig7 table9 --scale paper --preset {evidence.preset} --seeds 5",
        )
        both = [*usual.values(), known[table9.name_of(task, "Normal")]]
        found.append(rule.of_cells("difference", both))
    return found


def wide_language(evidence: Evidence) -> list[Claim]:
    """The summary: language modeling by embeddings alone takes width 4096 where full training takes 256."""
    known = {f"{point.kind} {point.name.size}": point.source for point in trained(evidence)}
    wide, narrow, normal = (
        known.get(name, Source(name, ())) for name in ("Random 4096x2", "Random 512x2", "Normal 256x2")
    )
    null = combined("difference", [narrow.values, normal.values])
    rule = Rule(
        "language: Random 4096 as Normal 256",
        "loss of Random 4096x2 minus Normal 256x2, nats",
        -math.inf,
        0.3,
        "Figure 4's tolerance for losses that are about equal; lower is better",
        None if null is None else Null("Random 512x2 instead", null, null <= 0.3),
        digits=2,
        command="icecore reproduce fig4 --scale paper --seeds 5 --only 'language, Random 4096x2'",
    )
    return [rule.of_cells("difference", [wide, normal])]


def claims(experiment: Experiment, evidence: Evidence) -> list[Claim]:
    """Return all claims; at a laptop's scale those about accuracies."""
    found = [*restarts(evidence), *lstms(experiment, evidence), *variants(evidence), *linearized(evidence)]
    if evidence.scale == "paper":
        found += [*induction(evidence), *circles(evidence), *concentration(evidence), *narrower(evidence)]
        found += [*ten_directions(evidence), *imitation(evidence), *wide_language(evidence)]
    return strictly_judged(found)


TEXT = Experiment("text", "claims of the text; LSTMs with a frozen body", cells, claims)
