"""What is inside a trained run: a file an analysis, which measures it, with its control, prints it and draws it."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from icecore.errors import unknown_name
from icecore.reporting.figures.drawing import write
from icecore.reporting.inside.attention import ATTENTION
from icecore.reporting.inside.causal import CAUSAL
from icecore.reporting.inside.looking import Analysis, Look, Request, Result, Subject, Table
from icecore.reporting.inside.memorized import CAPACITY
from icecore.reporting.inside.modular import MODULAR
from icecore.reporting.inside.readout import READOUT
from icecore.reporting.inside.variance import VARIANCE

ANALYSES: dict[str, Analysis] = {
    analysis.name: analysis for analysis in (VARIANCE, CAUSAL, ATTENTION, MODULAR, READOUT, CAPACITY)
}

__all__ = ["ANALYSES", "Analysis", "Look", "Request", "Result", "Subject", "Table", "chosen", "draw", "look_inside"]


def chosen(subject: Subject, names: Sequence[str]) -> list[str]:
    """The named analyses; if none is, those that fit the run."""
    for name in names:
        if name not in ANALYSES:
            raise unknown_name("analysis", name, list(ANALYSES))
    return list(names) or [name for name, analysis in ANALYSES.items() if analysis.fits(subject)]


def look_inside(look: Look, names: Iterable[str]) -> Iterator[tuple[str, Result]]:
    """Each analysis by name, as it is finished."""
    for name in names:
        look.tell(name, 0, 1)
        yield name, ANALYSES[name].measure(look)


def draw(look: Look, found: dict[str, Result], folder: Path) -> list[Path]:
    """A figure for each analysis that has one, as PNG and PDF; the files."""
    files: list[Path] = []
    for name, result in found.items():
        analysis = ANALYSES[name]
        figure = analysis.figure(look, result)
        if figure is not None:
            own = [folder / f"{analysis.figure_name or name}.{ending}" for ending in ("png", "pdf")]
            write(figure, own)
            files += own
    return files
