"""Figure 4: the loss of language models against their width."""

from collections.abc import Sequence
from pathlib import Path

from icecore.reporting.claim import seeds_by_setting
from icecore.reporting.figures.drawing import (
    COLOURS,
    DASHES,
    DOTS,
    GREY,
    draw_line,
    new_figure,
    save,
    style_of,
    ticks_at,
)
from icecore.reporting.language_claims import Trained, trained
from icecore.store import Records


def languages_of(_scale: str, preset: str, records: Records) -> list[Trained]:
    """What is recorded of Figure 4."""
    runs = [run for each in seeds_by_setting(records).values() for run in each]
    return trained(runs, preset)


def draw_languages(points: Sequence[Trained], title: str, paths: Sequence[Path]) -> None:
    """Best validation loss against width; 4 layers have dashes and empty markers."""
    figure = new_figure(5.4, 3.6)
    panel = figure.subplots()
    layers = sorted({point.layers for point in points})
    for kind in COLOURS:
        for count in layers:
            along = [point for point in points if (point.kind, point.layers) == (kind, count)]
            if along:
                widths = [point.width for point in along]
                draw_line(panel, widths, along, label=f"{kind}, {count} layers", **style_of(kind, count == layers[0]))
    for (name, floor), dash in zip(points[0].floors.items(), (DOTS, DASHES), strict=False):
        panel.axhline(floor, color=GREY, linestyle=dash, linewidth=0.9, label=f"floor: {name}")
    ticks_at(panel, sorted({point.width for point in points}))
    panel.set_xlabel("width", fontsize=8)
    panel.set_ylabel("best validation loss, nats a token", fontsize=8)
    trained_on = f"within {points[0].epochs:g} epochs of {points[0].train_tokens:,} tokens; the paper: 5 epochs of 2 GB"
    save(figure, f"{title}\n{trained_on}", paths)
