"""Parts that must train: language modeling with one part frozen after the other, beside norms and biases alone.

Not in the paper. Runs are found in the records by their settings: the text itself need not be there.
"""

import statistics
from collections.abc import Sequence

from icecore.paper.bodies_predictions import ATTENTION_COSTS_MORE, CHEAP_QUERIES
from icecore.paper.bodies_tables import theory_table
from icecore.paper.cells import PaperCell
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment
from icecore.paper.language import OTHER_TEXT, language_cell
from icecore.paper.scales import Scale
from icecore.reporting.claim import Claim, Source, median_of, without_verdict
from icecore.reporting.table import Table
from icecore.store.records import Record
from icecore.sweeps.names import CellName

# By the name of the row: what trains.
PARTS = {
    "Normal": "all",
    "q, k frozen": "token,position,unembed,v,out,mlp,norm",
    "v, out frozen": "token,position,unembed,q,k,mlp,norm",
    "attention frozen": "token,position,unembed,mlp,norm",
    "MLP frozen": "token,position,unembed,attention,norm",
    "norms frozen": "token,position,unembed,attention,mlp",
    "embeddings frozen": "attention,mlp,norm",
    "Random": "embeddings",
    "norms alone": "norms",
    "biases alone": "biases",
    "norms and biases alone": "norms+biases",
}
BODIES = ("transformer", "llama")
LAYERS, WIDTHS = 2, {"paper": 256, "laptop": 64}


def has(body: str, part: str) -> bool:
    """Tell whether a body has this part: Llama has no biases."""
    return body != "llama" or "biases" not in part


def cells(scale: Scale, preset: str) -> list[PaperCell]:
    return [
        language_cell(
            scale, part, WIDTHS[scale.name], LAYERS, preset, trainable=trainable, body=body, variant=variant_of(body)
        )
        for body in BODIES
        for part, trainable in PARTS.items()
        if has(body, part)
    ]


def variant_of(body: str) -> str:
    return "" if body == "transformer" else body


def runs(_experiment: Experiment, evidence: Evidence) -> list[Record]:
    """Return the runs on the text that most of them have."""
    found = [run for run in evidence.all_runs if is_ours(run, WIDTHS[evidence.scale], evidence.preset)]
    digests = [run["config"]["task"]["settings"]["digest"] for run in found]
    return [run for run, digest in zip(found, digests, strict=True) if digest == statistics.mode(digests)]


def is_ours(run: Record, width: int, preset: str) -> bool:
    config = run["config"]
    settings = config["model"]["settings"]
    init = "library" if config["model"]["name"] == "llama" else "paper" if preset == "paper" else "released"
    return (
        config["task"]["name"] == "language"
        and config["model"]["name"] in BODIES
        and (settings["width"], settings["layers"], settings.get("init")) == (width, LAYERS, init)
        and config.get("trainable") in PARTS.values()
    )


def by_part(experiment: Experiment, evidence: Evidence) -> dict[tuple[str, str], list[Record]]:
    """Return the runs by body and part."""
    names = {trainable: part for part, trainable in PARTS.items()}
    found: dict[tuple[str, str], list[Record]] = {}
    for run in runs(experiment, evidence):
        found.setdefault((run["config"]["model"]["name"], names[run["config"]["trainable"]]), []).append(run)
    return found


def claims(experiment: Experiment, evidence: Evidence) -> list[Claim]:
    """Return each arm's best validation loss."""
    known, found = by_part(experiment, evidence), []
    for body in BODIES:
        for part in (part for part in PARTS if has(body, part)):
            own = known.get((body, part), [])
            name = CellName("language", part, WIDTHS[evidence.scale], LAYERS, variant_of(body))
            source = Source.of(name, own, lambda run: run["best_loss"])
            baseline = min(own[0]["loss_baselines"].values(), default=None) if own else None
            ours = median_of(source.values)
            found.append(
                Claim(
                    experiment.name,
                    str(name),
                    None,
                    ours,
                    source.values,
                    baseline,
                    "",
                    OTHER_TEXT,
                    without_verdict(ours),
                    digits=3,
                    place=(part, body),
                    sources=(source,) if own else (),
                )
            )
    return found


def tables(experiment: Experiment, evidence: Evidence) -> list[Table]:
    """Return the losses by part and body, and the predictions."""
    known = by_part(experiment, evidence)
    medians = {key: statistics.median(run["best_loss"] for run in own) for key, own in known.items()}
    rows = [
        (part, *(cell for body in BODIES for cell in (loss_of(known, body, part), trained_of(known, body, part))))
        for part in PARTS
    ]
    headings = ("", *(text for body in BODIES for text in (body, f"{body}: trained")))
    size = f"{WIDTHS[evidence.scale]}x{LAYERS}"
    title = f"language, width {size}: best validation loss in nats per token, median of seeds (min to max)"

    def minus(body: str, first: str, second: str) -> float | None:
        both = medians.get((body, first)), medians.get((body, second))
        return None if both[0] is None or both[1] is None else both[0] - both[1]

    return [
        Table(title, headings, rows, left=("",), notes=notes_on(list(known.values()))),
        theory_table(
            [
                (CHEAP_QUERIES, minus("transformer", "q, k frozen", "Normal")),
                (ATTENTION_COSTS_MORE, minus("transformer", "attention frozen", "MLP frozen")),
            ]
        ),
    ]


def loss_of(known: dict[tuple[str, str], list[Record]], body: str, part: str) -> str:
    values = [run["best_loss"] for run in known.get((body, part), [])]
    if not values:
        return "-" if has(body, part) else "has none"
    spread = "" if len(values) == 1 else f" ({min(values):.3f} to {max(values):.3f})"
    return f"{statistics.median(values):.3f}{spread}"


def trained_of(known: dict[tuple[str, str], list[Record]], body: str, part: str) -> str:
    own = known.get((body, part), [])
    return f"{own[0]['trained_parameters']:,}" if own else ""


def notes_on(each: Sequence[list[Record]]) -> tuple[str, ...]:
    """Return the baselines and the text's size."""
    if not each:
        return ()
    run = each[0][0]
    baselines = ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in run["loss_baselines"].items())
    return (
        f"baselines: {baselines}; within {run['text']['epochs']:g} epochs of {run['text']['tokens']['train']:,} tokens",
    )


PARTS_EXPERIMENT = Experiment(
    "parts",
    "language modeling with one part frozen after the other (not in the paper)",
    cells,
    claims,
    runs=runs,
    needs_text=True,
    tables=tables,
)
