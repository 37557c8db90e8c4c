"""Look inside a run in Python: `ice.analyze` and `ice.track`, which a notebook shows as tables and figures."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icecore.drawing import as_png
from icecore.errors import InputError
from icecore.reporting import pathway
from icecore.reporting.inside import AnalysisContext, AnalysisOptions, AnalyzedRun, analyze_run, chosen
from icecore.reporting.table import Table, escaped
from icecore.sweeps import tracking
from icecore.training import TrainedRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class Findings:
    """Numbers found in a run, as tables and figures."""

    numbers: dict[str, Any]
    tables: list[Table]
    figures: list["Figure"]

    def __repr__(self) -> str:
        return f"Findings({'; '.join(table.title for table in self.tables)})"

    def _repr_html_(self) -> str:
        """Show them in a notebook."""
        return "\n".join([table._repr_html_() for table in self.tables] + [*map(in_html, self.figures)])


def in_html(figure: "Figure") -> str:
    picture = base64.b64encode(as_png(figure)).decode()
    return f'<img alt="{escaped(figure.get_suptitle())}" src="data:image/png;base64,{picture}">'


def analyze(
    run: TrainedRun,
    what: str | Iterable[str] = (),
    *,
    seed: int | None = None,
    items: int = 1_000,
    activation: str | None = None,
    prompt: str | None = None,
) -> Findings:
    """Look inside one seed of a run, by default the first, with the untrained network as control.

    `what` names analyses, ours or `FILE.py:FUNCTION`; by default those that fit the run. The rest are options of
    `icecore analyze`.
    """
    analyzed = AnalyzedRun.of(run.config, run.population, run.config.seeds[0] if seed is None else seed)
    analyses = chosen(analyzed, [what] if isinstance(what, str) else list(what))
    context = AnalysisContext(analyzed, AnalysisOptions(items=items, activation=activation, prompt=prompt))
    found = dict(analyze_run(context, analyses.values()))
    drawn = [analyses[name].figure(context, result) for name, result in found.items()]
    tables = [table for name, result in found.items() for table in analyses[name].tables(result)]
    return Findings(found, tables, [figure for figure in drawn if figure is not None])


def track(run: TrainedRun, *, beside: TrainedRun | None = None, items: int = tracking.ITEMS) -> Findings:
    """Tell whether training the body refined or replaced a mechanism, at every snapshot of a saved run.

    `beside` is full training from the same seeds, as a control.
    """
    path = run.path
    if path is None:
        raise InputError("track reads the snapshots that are saved with a run: train it with out=FOLDER")
    tracked = tracking.Track(path, run.config, run.population, run.config.seeds)
    if beside is not None:
        tracked = tracked.beside_run(beside.config, beside.population, repr(beside))
    found = tracking.track(tracked, items)
    return Findings(found, pathway.tables(found), [pathway.draw(found)])
