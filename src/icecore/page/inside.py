"""The inside of runs: stored analyses, and those measured for the page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from icecore.errors import InputError, in_one_line
from icecore.page.runs import Warn
from icecore.reporting.table import Table
from icecore.store.files import read_json

OnProgress = Callable[[str, int, int], None]
DAMAGED = (KeyError, TypeError, AttributeError, ValueError, IndexError)
CIRCUMSTANCES = ("command", "commit", "device", "torch", "run")


def stored_part(paths: Sequence[Path], named: Sequence[Path], warn: Warn) -> list[dict[str, Any]]:
    """Return the analyses in files that `icecore analyze --out` wrote; others are skipped with a warning."""
    found = []
    for path in paths:
        try:
            stored = read_json(path)
            shown = [shown_analysis(name, result) for name, result in stored["analyses"].items()]
        except (InputError, *DAMAGED) as error:
            reason = f"{path} is not what icecore analyze --out writes ({in_one_line(error)})"
            if path in named:
                raise InputError(reason) from None
            warn(f"{reason}; it is left out")
            continue
        circumstances = {name: str(stored[name]) for name in CIRCUMSTANCES if stored.get(name)}
        found.append({"title": path.stem, **circumstances, "analyses": shown})
    return found


def measured_part(path: Path, trust: bool, on_progress: OnProgress) -> dict[str, Any]:
    """Run the analyses that fit a run, for its first seed."""
    from icecore.reporting.inside import AnalysisContext, AnalysisOptions, AnalyzedRun, analyze_run, chosen
    from icecore.store import provenance
    from icecore.training import RunFolder, device_name, pick_device

    config, population = RunFolder(path, trust).load(pick_device("auto"))
    run = AnalyzedRun.of(config, population, config.seeds[0])
    found = dict(analyze_run(AnalysisContext(run, AnalysisOptions(), on_progress), chosen(run, []).values()))
    circumstances = provenance(device_name(population.device))
    return {
        "title": f"{path.parent.name}/{path.name}, seed {run.seed}",
        "run": path.name,
        **{name: circumstances[name] for name in CIRCUMSTANCES if name in circumstances},
        "analyses": [shown_analysis(name, result) for name, result in found.items()],
    }


def shown_analysis(name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return an analysis's tables, charts and maps; one that icecore does not have is a user's own."""
    from icecore.reporting.inside import ANALYSES
    from icecore.reporting.inside.context import Analysis
    from icecore.reporting.inside.own import ABOUT, tables

    result = dict(result)
    known = ANALYSES.get(name) or Analysis(name, ABOUT, lambda _: result, tables)
    return {
        "name": name,
        "about": known.about,
        "tables": [table_json(one) for one in known.tables(result)],
        "charts": [asdict(one) for one in known.chart(result)],
    }


def table_json(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        "headings": table.headings,
        "sides": table.sides,
        "rows": table.rows,
        "notes": table.notes,
    }
