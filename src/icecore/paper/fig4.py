"""Figure 4: the loss of language models against their width.

SOURCE: section 5.2 and figure 4. The claims were written before any language model of these sizes was trained.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from icecore.drawing import DASHES, DOTS, GREY, draw_line, finished, new_figure, style_of, ticks_at
from icecore.paper.cells import PaperCell
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment, Figure
from icecore.paper.language import OTHER_TEXT, kind_of, language_cell, layers_of, of_one_text, width_of
from icecore.paper.scales import Scale
from icecore.reporting.chart import Axis, Chart, Dot, line_of, rules_of
from icecore.reporting.claim import Claim, Source, median_of, strictly_judged, verdict_of, without_verdict
from icecore.reporting.verdict import Null
from icecore.store.records import Record, key_of
from icecore.sweeps.names import TRAINED, CellName

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

LAYERS = (2, 4)
# SOURCE: the paper's summary: embeddings alone need width 4096 where full training needs 256. At the paper's scale.
WIDE_RANDOM = (2048, 4096)


@dataclass(frozen=True)
class Shape:
    """A difference of two losses, comparable between texts, and its allowed range."""

    first: str
    second: str
    paper: float | None
    least: float
    most: float
    tolerance: str
    reason: str


SHAPES = (
    Shape("Random 512x2", "Normal 32x2", 0.0, -0.3, 0.3, "0.3", "the paper says that Random 512 is about Normal 32"),
    Shape("Random 512x2", "Normal 512x2", None, 0.3, math.inf, "at least 0.3", "Random is far above Normal"),
    Shape("Random 512x4", "Random 512x2", None, 0.0, math.inf, "at least 0", "2 layers beat 4 in Random"),
)


@dataclass(frozen=True)
class Trained:
    """Language models of one shape: each run's best validation loss, and the baselines."""

    kind: str  # Random or Normal
    width: int
    layers: int
    values: tuple[float, ...]
    baselines: dict[str, float]
    train_tokens: int
    epochs: float
    runs: tuple[str, ...] = ()  # the keys of the values' runs

    @property
    def name(self) -> CellName:
        return CellName("language", self.kind, self.width, self.layers, "best validation loss")

    @property
    def source(self) -> Source:
        return Source(str(self.name), self.values, self.runs)


def cells(scale: Scale, preset: str) -> list[PaperCell]:
    along = [
        language_cell(scale, kind, width, layers, preset)
        for layers in LAYERS
        for kind in TRAINED
        for width in scale.language.widths
    ]
    wide = WIDE_RANDOM if scale.name == "paper" else ()
    return along + [language_cell(scale, "Random", width, LAYERS[0], preset) for width in wide]


def runs(_experiment: Experiment, evidence: Evidence) -> list[Record]:
    return of_one_text(evidence.all_runs, evidence.preset)


def trained(evidence: Evidence) -> list[Trained]:
    """Return the models recorded on the text with the most runs, by layers, kind and width.

    Runs of one shape may differ in epochs. All count, because the best loss does.
    """
    found = []
    by_shape: dict[tuple[int, str, int], list[Record]] = {}
    for run in of_one_text(evidence.all_runs, evidence.preset):
        by_shape.setdefault((layers_of(run), kind_of(run), width_of(run)), []).append(run)
    for (layers, kind, width), own in sorted(by_shape.items()):
        own.sort(key=lambda run: run["seed"])
        values, keys, text = (run["best_loss"] for run in own), tuple(map(key_of, own)), own[0]["text"]
        baselines, tokens = own[0].get("loss_baselines", {}), text["tokens"]["train"]
        found.append(Trained(kind, width, layers, tuple(values), baselines, tokens, text["epochs"], keys))
    return found


def claims(experiment: Experiment, evidence: Evidence) -> list[Claim]:
    """Return claims on each point and, at the paper's scale, on the figure's shape; a laptop's text is too small."""
    points = trained(evidence)
    shapes = SHAPES if evidence.scale == "paper" else ()
    return [
        *(point_claim(experiment, point) for point in points),
        *strictly_judged([shape_claim(points, shape) for shape in shapes]),
    ]


def point_claim(experiment: Experiment, point: Trained) -> Claim:
    ours = median_of(point.values)
    return Claim(
        experiment.name,
        str(point.name),
        None,
        ours,
        point.values,
        min(point.baselines.values(), default=None),
        "",
        OTHER_TEXT,
        without_verdict(ours),
        digits=3,
        note=f"within {point.epochs:g} epochs of {point.train_tokens:,} tokens",
        place=experiment.place(point.name),
        sources=(point.source,),
    )


def shape_claim(points: Sequence[Trained], shape: Shape) -> Claim:
    """Return a claim on one loss minus another. On another text only its sign, or that it is small, can be compared."""
    by_size = {f"{point.kind} {point.name.size}": point for point in points}
    first, second = by_size.get(shape.first), by_size.get(shape.second)
    ours, seeds, sources = None, 0, ()
    if first is not None and second is not None:
        ours = statistics.median(first.values) - statistics.median(second.values)
        seeds = min(len(first.values), len(second.values))
        sources = (first.source, second.source)
    label = f"loss of {shape.first} minus {shape.second}"
    verdict = verdict_of(ours, ours is not None and shape.least <= ours <= shape.most)
    return Claim(
        "fig4",
        label,
        shape.paper,
        ours,
        (),
        None,
        shape.tolerance,
        shape.reason,
        verdict,
        digits=2,
        seeds=seeds,
        allowed=(shape.least, shape.most),
        compared="difference",
        null=Null("equal losses", 0.0, shape.least <= 0.0 <= shape.most),
        sources=sources,
    )


def draw_languages(points: Sequence[Trained], title: str) -> "Drawn":
    """Draw the best validation loss against width."""
    figure = new_figure(5.4, 3.6)
    panel = figure.subplots()
    layers = sorted({point.layers for point in points})
    for kind in TRAINED:
        for body, count in enumerate(layers):
            along = [point for point in points if (point.kind, point.layers) == (kind, count)]
            if along:
                widths = [point.width for point in along]
                draw_line(panel, widths, along, label=f"{kind}, {count} layers", **style_of(kind, body))
    for (name, baseline), dash in zip(points[0].baselines.items(), (DOTS, DASHES), strict=False):
        panel.axhline(baseline, color=GREY, linestyle=dash, linewidth=0.9, label=f"baseline: {name}")
    ticks_at(panel, sorted({point.width for point in points}))
    panel.set_xlabel("width", fontsize=8)
    panel.set_ylabel("best validation loss, nats per token", fontsize=8)
    trained_on = f"within {points[0].epochs:g} epochs of {points[0].train_tokens:,} tokens; the paper: 5 epochs of 2 GB"
    return finished(figure, f"{title}\n{trained_on}")


def chart_languages(points: Sequence[Trained], title: str) -> Chart:
    """Chart the same."""
    layers = sorted({point.layers for point in points})
    lines = []
    for kind in TRAINED:
        for body, count in enumerate(layers):
            dots = [Dot(one.width, one.values, one.runs) for one in points if (one.kind, one.layers) == (kind, count)]
            lines += [line_of(f"{kind}, {count} layers", kind, body, dots)] if dots else []
    rules = rules_of(("", name, value) for name, value in points[0].baselines.items())
    return Chart(title, Axis("width", "log"), Axis("best validation loss, nats per token"), tuple(lines), rules)


FIG4 = Experiment(
    "fig4",
    "language-model loss against width",
    cells,
    claims,
    {"fig4": Figure("Figure 4: loss of language models against width", trained, draw_languages, chart_languages)},
    runs,
    needs_text=True,
    columns="width",
)
