"""Runs of a page, by setting: one configuration with all its seeds, from records and from run folders."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icecore.errors import InputError
from icecore.reporting.curves import series_of
from icecore.store.record_schema import is_number, is_valid
from icecore.store.records import PLACES, Record
from icecore.sweeps.names import PARTS, TRAINED

Warn = Callable[[str], None]
KINDS = {trainable: kind for kind, trainable in (TRAINED | PARTS).items()}
COPIED = ("steps", "seconds", "seeds_at_once", "device", "commit", "command", "weights")  # from a record or result
NOT_NUMBERS = (*COPIED, "seed", "threads", "trained_parameters", "frozen_parameters")


@dataclass
class Setting:
    """One configuration and its runs."""

    config: dict[str, Any]
    facts: dict[str, Any] = field(default_factory=dict)  # parameters and baselines
    runs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Return the trainable set, by the paper's name if it has one."""
        return ", then ".join(
            KINDS.get(phase.get("trainable", ""), str(phase.get("trainable"))) for phase in self.phases
        )

    @property
    def phases(self) -> list[dict[str, Any]]:
        phases = self.config.get("phases") or [self.config]
        return [phase for phase in phases if isinstance(phase, dict)]

    @property
    def width(self) -> int | None:
        width = self.config["model"]["settings"].get("width")
        return width if type(width) is int else None

    @property
    def line(self) -> str:
        """Return the name of its line: "Random", or "Random, gru" for other bodies than the transformer."""
        body = self.config["model"]["name"]
        return self.kind if body == "transformer" else f"{self.kind}, {body}"

    @property
    def label(self) -> str:
        """Return the name of its cell: "needle, Random 1024"; language models also have their layers."""
        task, layers = self.config["task"]["name"], self.config["model"]["settings"].get("layers")
        size = "" if self.width is None else f" {self.width}" + (f"x{layers}" if task == "language" else "")
        kind, comma, body = self.line.partition(", ")
        return f"{task}, {kind}{size}{comma}{body}"

    def as_json(self) -> dict[str, Any]:
        config = {key: value for key, value in self.config.items() if key not in ("seeds", "precision")}
        for part in ("task", "model"):
            config[part] = {key: shortened(value) if key in PLACES else value for key, value in config[part].items()}
        runs = sorted(self.runs, key=lambda run: (str(run.get("precision")), run["seed"]))
        return {"label": self.label, "config": config, **self.facts, "runs": runs}


def shortened(place: Any) -> Any:
    """Reduce paths to their last part: the rest means nothing on other machines, and may be private."""
    if isinstance(place, dict):
        return {name: shortened(each) for name, each in place.items()}
    return Path(place).name if isinstance(place, str) else place


class Library:
    """All settings of a page, with their runs and curves."""

    def __init__(self, most_points: int) -> None:
        self.settings: dict[str, Setting] = {}
        self.curves: list[dict[str, Any]] = []
        self.most_points = most_points
        self.known: dict[tuple[str, int, str], dict[str, Any]] = {}

    def add_records(self, records: Iterable[Record]) -> None:
        for record in records:
            if is_valid(record):
                run = run_of_record(record)
                if "curve" in record:  # of memorization, for Figure 8
                    run["curve"] = [len(self.curves), 0]
                    self.curves.append(series_of(rows_of(record["curve"]), 1, self.most_points))
                self.add(record["setting"], record["config"], facts_of(record), run)

    def add_folder(self, path: Path) -> str:
        """Add a run's folder, finished or not, with its curves; return its setting."""
        from icecore.sweeps.cells import setting_of
        from icecore.training.run_folder import RunFolder, read_config

        folder, config = RunFolder(path), read_config(path)
        seeds = config.get("seeds")
        if not isinstance(seeds, list) or not seeds or not all(type(seed) is int for seed in seeds):
            raise InputError(f"{path} is damaged: its config names no seeds; delete the folder")
        result, setting = folder.result() if folder.is_complete else {}, setting_of(config)
        series = series_of(folder.metrics(), len(seeds), self.most_points)
        if series:
            self.curves.append(series)
        for index, seed in enumerate(seeds):
            run = run_of_folder(path, config, result, index, seed)
            run["curve"] = [len(self.curves) - 1, index] if series else None
            if not result:
                run["unfinished"] = max((each["steps"][-1] for each in series.values()), default=0)
            self.add(setting, config, facts_of(result), run)
        return setting

    def add(self, setting: str, config: dict[str, Any], facts: dict[str, Any], run: dict[str, Any]) -> None:
        """Add a run, or complete a known one from a record or another copy."""
        of = self.settings.setdefault(setting, Setting(config))
        of.facts |= facts
        key = setting, run["seed"], str(run.get("precision"))
        if (known := self.known.get(key)) is None:
            self.known[key] = run
            of.runs.append(run)
        else:
            known |= {name: value for name, value in run.items() if known.get(name) in (None, {})}
            known["curve"] = run.get("curve") or known.get("curve")  # a folder has more than a record
            if not run.get("unfinished"):
                known.pop("unfinished", None)


def rows_of(curve: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Return a record's curve as the rows that a run's folder logs."""
    return [{"step": step, "accuracy": [each]} for step, each in zip(curve["steps"], curve["accuracy"], strict=True)]


def run_of_record(record: Record) -> dict[str, Any]:
    numbers = {name: value for name, value in record.items() if name not in NOT_NUMBERS and is_number(value)}
    return {
        "run": record["run"],
        "seed": record["seed"],
        "precision": record["config"].get("precision"),
        "numbers": numbers,
        **{name: record[name] for name in COPIED if name in record},
        "torch": record.get("versions", {}).get("torch"),
    }


def run_of_folder(path: Path, config: dict[str, Any], result: dict[str, Any], index: int, seed: int) -> dict[str, Any]:
    per_seed = {name: value[index] for name, value in result.items() if isinstance(value, list) and name != "seeds"}
    versions = result.get("versions")
    return {
        "run": path.name,
        "seed": seed,
        "precision": config.get("precision"),
        "numbers": {name: value for name, value in per_seed.items() if is_number(value)},
        **{name: result[name] for name in COPIED if name in result},
        "seeds_at_once": len(config["seeds"]),
        "torch": versions.get("torch") if isinstance(versions, dict) else None,
        "folder": f"{path.parent.name}/{path.name}",
    }


def facts_of(result: dict[str, Any]) -> dict[str, Any]:
    """Return what all seeds of a setting share."""
    names = ("baselines", "loss_baselines", "trained_parameters", "frozen_parameters")
    return {name: result[name] for name in names if name in result}


def add_folders(
    library: Library, paths: Sequence[Path], named: Sequence[Path], warn: Warn, on_done: Callable[[int], None]
) -> dict[Path, str]:
    """Add run folders and return their settings; one that cannot be read is skipped with a warning, unless named."""
    found: dict[Path, str] = {}
    for done, path in enumerate(paths, start=1):
        with contextlib.nullcontext() if path in named else skipping(path, warn):
            found[path] = library.add_folder(path)
        on_done(done)
    return found


@contextlib.contextmanager
def skipping(path: Path, warn: Warn):
    """Warn about a damaged run instead of raising."""
    try:
        yield
    except (InputError, KeyError, TypeError, AttributeError, ValueError) as error:
        warn(f"{path} is damaged and skipped: {error}")
