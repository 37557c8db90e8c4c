"""Analyses of a trained run, one file each: measurement with its control, tables and figure."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from icecore.drawing import write
from icecore.errors import require, unknown_name
from icecore.reporting.inside.attention import ATTENTION
from icecore.reporting.inside.causal import CAUSAL
from icecore.reporting.inside.context import Analysis, AnalysisContext, AnalysisOptions, AnalyzedRun, Result
from icecore.reporting.inside.memorized import CAPACITY
from icecore.reporting.inside.modular import MODULAR
from icecore.reporting.inside.own import own_analysis
from icecore.reporting.inside.readout import READOUT
from icecore.reporting.inside.variance import VARIANCE
from icecore.reporting.table import Table
from icecore.user_code import is_file

ANALYSES: dict[str, Analysis] = {
    analysis.name: analysis for analysis in (VARIANCE, CAUSAL, ATTENTION, MODULAR, READOUT, CAPACITY)
}

__all__ = [
    "ANALYSES",
    "Analysis",
    "AnalysisContext",
    "AnalysisOptions",
    "AnalyzedRun",
    "Result",
    "Table",
    "analyze_run",
    "chosen",
    "draw",
]


def chosen(run: AnalyzedRun, names: Sequence[str]) -> dict[str, Analysis]:
    """Return the named analyses, ours or `FILE.py:FUNCTION`; by default those of ours that fit the run."""
    if not names:
        return {name: analysis for name, analysis in ANALYSES.items() if analysis.fits(run)}
    found: dict[str, Analysis] = {}
    for name in names:
        if name not in ANALYSES and not is_file(name):
            raise unknown_name("analysis", name, [*ANALYSES, "FILE.py:FUNCTION"])
        analysis = ANALYSES[name] if name in ANALYSES else own_analysis(name)
        is_ours = ANALYSES.get(analysis.name) is analysis
        require(
            is_ours or analysis.name not in (*ANALYSES, *found),
            f"two analyses would have the name {analysis.name}: rename the function of {name}",
        )
        found[analysis.name] = analysis
    return found


def analyze_run(context: AnalysisContext, analyses: Iterable[Analysis]) -> Iterator[tuple[str, Result]]:
    """Yield each analysis's name and result as it finishes."""
    for analysis in analyses:
        context.on_progress(analysis.name, 0, 1)
        yield analysis.name, analysis.measure(context)


def draw(context: AnalysisContext, analyses: Iterable[Analysis], found: dict[str, Result], folder: Path) -> list[Path]:
    """Draw a figure for each analysis that has one, as PNG and PDF, named by the run; return the files."""
    files: list[Path] = []
    run = context.run
    name = f"{run.config.task.name}-{run.config.run_id}-seed{run.seed}"
    for analysis in analyses:
        figure = analysis.figure(context, found[analysis.name])
        if figure is not None:
            what = analysis.figure_name or analysis.name
            own = [folder / f"{name}-{what}.{ending}" for ending in ("png", "pdf")]
            write(figure, own)
            files += own
    return files
