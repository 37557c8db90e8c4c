"""The paper's figures, drawn from stored records."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icecore.errors import InputError
from icecore.reporting.figures.imitation import draw_imitations, imitations_of
from icecore.reporting.figures.language import draw_languages, languages_of
from icecore.reporting.figures.memorization import bits_of, curves_of, draw_bits, draw_curves
from icecore.reporting.figures.widths import all_widths_of, draw_widths, initializations_of
from icecore.store import Records


@dataclass(frozen=True)
class Drawn:
    """A figure: its title, what is recorded of it at a scale and preset, and how that is drawn."""

    title: str
    points_of: Callable[[str, str, Records], list[Any]]
    draw: Callable[[list[Any], str, Sequence[Path]], None]
    entry: str  # what `icecore reproduce` calls it


FIGURES = {
    "fig4": Drawn("Figure 4: loss of language models against width", languages_of, draw_languages, "fig4"),
    "fig6": Drawn("Figure 6: circuit imitation, Random and Normal students", imitations_of, draw_imitations, "fig6"),
    "fig7": Drawn("Figure 7: accuracy against width", all_widths_of, draw_widths, "fig7"),
    "fig8": Drawn("Figure 8: accuracy during memorization", curves_of, draw_curves, "fig8"),
    "capacity": Drawn("Memorized bits a parameter", bits_of, draw_bits, "table3"),
    "init": Drawn(
        "Random bodies: the released initialization, and the gain of width 1024",
        initializations_of,
        draw_widths,
        "init",
    ),
}


def draw(name: str, scale: str, preset: str, records: Records, paths: Sequence[Path]) -> list[Any]:
    """Draw it; its points, curves or bars, each with `values`, one a run."""
    if name not in FIGURES:
        raise InputError(f"there is no figure {name} yet; there are {', '.join(FIGURES)}")
    figure = FIGURES[name]
    points = figure.points_of(scale, preset, records)
    if not points:
        raise InputError(
            f"nothing of {name} is recorded in {records.path}; icecore reproduce {figure.entry} --scale {scale} "
            f"--preset {preset} trains it"
        )
    try:
        figure.draw(points, figure.title, paths)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot draw {', '.join(map(str, paths))}: {error}") from error
    return points
