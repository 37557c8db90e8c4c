"""The data of a report, and its tables for readers without scripts."""

import contextlib
import datetime
import math
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import icecore
from icecore.errors import InputError
from icecore.page.inside import CIRCUMSTANCES, DAMAGED, measured_part, stored_part, table_json
from icecore.page.own import own_part
from icecore.page.paper_part import paper_part, paper_settings, scales_of
from icecore.page.rules import add_lazy_rules
from icecore.page.runs import Library, Warn, add_folders
from icecore.page.sources import PLAYGROUND_VERSION, Sources
from icecore.reporting.bench_tables import bench_table
from icecore.store.files import read_json
from icecore.store.provenance import origin
from icecore.store.records import Records, key_of

OnProgress = Callable[[str, int, int], None]  # (stage, done, all)
POINTS, LEAST_POINTS, MOST_POINTS = 400_000, 20, 160  # points of all curves together; fewest and most of one
MOST_NAMED = 3  # tasks in a title


@dataclass(frozen=True)
class Options:
    """The user's request."""

    title: str = ""
    scale: str | None = None  # default: those that were run
    inside: bool = True  # measure runs that were named one by one, and let them compute in the page
    trust: bool = False


def report_data(sources: Sources, options: Options, warn: Warn, on_progress: OnProgress) -> dict[str, Any]:
    """Return all that the page shows, as JSON."""
    library = Library(points_per_curve(sources))
    of_paper: set[str] = set()
    parts = []
    for folder in sources.records:
        records = Records(folder, warn)
        library.add_records(records.by_run().values())
        for scale in [options.scale] if options.scale else scales_of(records):
            parts.append(part_of(records, scale, on_progress))
            of_paper |= paper_settings(scale) | settings_in(parts[-1], library)
    folders = add_folders(
        library, sources.runs, sources.named, warn, lambda done: on_progress("runs", done, len(sources.runs))
    )
    inside = stored_part(sources.analyses, sources.named, warn)
    playgrounds = playgrounds_of(sources, warn)
    if options.inside:
        inside += [measured_part(path, options.trust, on_progress) for path in finished(sources.named_runs)]
        playgrounds += [one for path in finished(sources.named_runs) if (one := played(path, options.trust))]
    own = {key: setting for key, setting in library.settings.items() if key not in of_paper}
    add_lazy_rules(own, folders, options.trust, lambda done, count: on_progress("baselines", done, count))
    groups = own_part(own)
    return {
        "kind": "report",
        "title": options.title or default_title(sources, parts, groups),
        "made": made(),
        "parts": parts,
        "own": groups,
        "inside": inside,
        "playgrounds": playgrounds,
        "benches": benches_of(sources, warn),
        "settings": {key: setting.as_json() for key, setting in library.settings.items()},
        "curves": library.curves,
    }


def made() -> dict[str, str]:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {"icecore": icecore.__version__, **origin(), "at": now}


def points_per_curve(sources: Sources) -> int:
    """Return the most points of a curve, fewer with many runs, so that any number fits into one page."""
    return max(LEAST_POINTS, min(MOST_POINTS, POINTS // max(1, 10 * len(sources.runs))))


def part_of(records: Records, scale: str, on_progress: OnProgress) -> dict[str, Any]:
    from icecore.paper import EXPERIMENTS

    names = iter(range(1, len(EXPERIMENTS) + 1))
    stage = f"claims at {scale} scale"
    return paper_part(records, scale, lambda _: on_progress(stage, next(names), len(EXPERIMENTS)))


def settings_in(part: dict[str, Any], library: Library) -> set[str]:
    """Return the settings of the runs behind claims; language models have no others."""
    settings = {key_of(run): key for key, setting in library.settings.items() for run in setting.runs}
    return {
        settings[run]
        for experiment in part["experiments"]
        for shown in experiment["presets"].values()
        for claim in shown.get("claims", [])
        for source in claim.get("sources", [])
        for run in source.get("runs", [])
        if run in settings
    }


def finished(paths: Sequence[Path]) -> list[Path]:
    from icecore.training import RunFolder

    return [path for path in paths if RunFolder(path).is_complete]


def default_title(sources: Sources, parts: Sequence[Any], own: Sequence[Mapping[str, Any]]) -> str:
    """Name the records of a page with claims, and of others the tasks."""
    names = [folder.name for folder in sources.records] if parts else [group["task"] for group in own]
    named = list(dict.fromkeys(names or [path.parent.name for path in sources.runs]))
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return f"icecore: {', '.join(named[:MOST_NAMED]) or 'analyses'}{more}"


def playgrounds_of(sources: Sources, warn: Warn) -> list[dict[str, Any]]:
    """Return the stored playgrounds; a file of another kind or version is left out with a warning."""
    found = []
    for path in sources.playgrounds:
        try:
            stored = read_json(path)
        except InputError as error:
            warn(str(error))
            continue
        if is_whole(stored):
            found.append(stored)
        else:
            warn(f"{path} is not a file of icecore playground --out; regenerate it")
    return found


def is_whole(stored: Any) -> bool:
    """Tell whether a file holds a playground of this version, with as many weights as its page will read."""
    with contextlib.suppress(*DAMAGED):
        task, rows, sets = stored["task"], {}, stored["sets"]
        for parameter in stored["parameters"]:
            rows[parameter["name"]] = parameter["rows"] * math.prod(parameter["shape"][1:])
        sizes = [
            len(one["snapshots"]) * sum(rows[name] for name in one["trained"]) == len(b64decode(one["weights"])) // 2
            for one in sets
        ]
        known = range(len(task["words"]))
        items = [token in known for item in task["items"] for token in (*item["tokens"], item["answer"])]
        texts = (task["name"], task["settings"], stored["run"], *task["words"], *task["answers"])
        return (
            (stored["kind"], stored["version"]) == ("playground", PLAYGROUND_VERSION)
            and all(isinstance(text, str) for text in texts)
            and len(task["answers"]) == len(task["words"])
            and all((*sizes, *items))
            and bool(sets and items)
        )
    return False


def played(path: Path, trust: bool) -> dict[str, Any] | None:
    """Return a run as a playground, with the snapshots that it saved, if a page can compute it."""
    from icecore.page.playground import PlaygroundOptions, is_playable, playground_of
    from icecore.training import RunFolder

    if not is_playable(RunFolder(path, trust).complete_config()):
        return None
    return playground_of(path, PlaygroundOptions(may_train=False), trust, lambda _: None)


def benches_of(sources: Sources, warn: Warn) -> list[dict[str, Any]]:
    """Return the tables of stored benchmarks, with what made them."""
    found = []
    for path in sources.benches:
        try:
            stored = read_json(path)
        except InputError as error:
            warn(str(error))
            continue
        with contextlib.suppress(*DAMAGED):  # not of training speed, such as a profile
            title = f"{path.stem}, {stored['device']}" if isinstance(stored.get("device"), str) else path.stem
            known = {name: str(stored[name]) for name in CIRCUMSTANCES if stored.get(name)}
            found.append({**known, **table_json(bench_table(stored["rows"], title))})
    return found
