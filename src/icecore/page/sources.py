"""Sources of a page: folders of records, folders of runs, and files of analyses."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from icecore.errors import InputError
from icecore.store.records import NAME
from icecore.store.temporary import is_temporary

CONFIG = "config.json"  # as in `training.run_folder`, which imports torch
ANALYSES, BENCH, PLAYGROUND = "analyses", "bench", "playground"  # folders beside records
PLAYGROUND_VERSION = 2  # version of a playground's data
USUAL = (Path("results"), Path("runs"))


@dataclass(frozen=True)
class Sources:
    """Paths, each once, in the order given."""

    records: tuple[Path, ...] = ()  # folders with runs.jsonl
    runs: tuple[Path, ...] = ()  # folders of runs
    named: tuple[Path, ...] = ()  # runs and files that were named one by one
    analyses: tuple[Path, ...] = ()  # files that `icecore analyze --out` wrote
    benches: tuple[Path, ...] = ()  # files that `icecore bench --out` wrote
    playgrounds: tuple[Path, ...] = ()  # files that `icecore playground --out FILE.json` wrote

    @property
    def named_runs(self) -> tuple[Path, ...]:
        return tuple(path for path in self.runs if path in self.named)


def sources_of(paths: Sequence[Path]) -> Sources:
    """Sort the paths into records, runs and analyses; without any, take `results` and `runs`."""
    if not paths:
        paths = [path for path in USUAL if path.is_dir()]
        if not paths:
            raise InputError(
                "there is no results/ and no runs/ here: name a run's folder, a folder of runs or of records"
            )
    records, runs, named, analyses, benches, playgrounds = [], [], [], [], [], []
    for path in paths:
        if path.is_file() and path.suffix == ".json":
            named.append(path)
            analyses.append(path)
        elif (path / CONFIG).is_file():
            named.append(path)
            runs.append(path)
        elif path.is_dir():
            below, recorded = runs_below(path), records_in(path)
            if not below and not recorded:
                raise InputError(f"{path} holds neither runs nor records; icecore train --out {path} makes a run there")
            runs += below
            records += recorded
            analyses += sorted((path / ANALYSES).glob("*.json"))
            benches += sorted((path / BENCH).glob("*.json"))
            playgrounds += sorted((path / PLAYGROUND).glob("*.json"))
        else:
            raise InputError(
                f"there is no run at {path}: name a run's folder, a folder of runs or records, or a JSON file of "
                "icecore analyze --out"
            )
    return Sources(*map(each_once, (records, runs, named, analyses, benches, playgrounds)))


def records_in(folder: Path) -> list[Path]:
    """Return the folders of records: itself, and those directly below it, such as `results/laptop`."""
    below = sorted(path.parent for path in folder.glob(f"*/{NAME}") if not is_temporary(path.parent))
    return [*([folder] if (folder / NAME).is_file() else []), *below]


def runs_below(folder: Path) -> list[Path]:
    """Return the folders of runs below a folder, apart from those that another process is writing."""
    return sorted(path.parent for path in folder.glob(f"**/{CONFIG}") if not any(map(is_temporary, path.parents)))


def each_once(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple({path.resolve(): path for path in paths}.values())
