"""Records of results: append-only JSON lines, one per run of one seed, mergeable across machines."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from icecore.errors import InputError
from icecore.store.agreement import disagreements, in_one_clause
from icecore.store.lines import append_lines, numbered_lines
from icecore.store.record_schema import has_numbers_in_range

Record = dict[str, Any]
RENAMED = {"floors": "baselines", "loss_floors": "loss_baselines"}  # keys of older results, still read
Warn = Callable[[str], None]

# Results of runs, and of some of them activations, and whether training the body refined or replaced the mechanism.
NAME, INSIDE, TRACKS = "runs.jsonl", "inside.jsonl", "tracks.jsonl"
# Keys that may differ between two records of one run: when, where and how fast it ran.
CIRCUMSTANCES = ("seconds", "seeds_at_once", "threads", "device", "versions", "commit", "source", "command")
MEASURED_ANEW = ("coordinates", "lazy_rule", "track")  # on each machine
PLACES = ("where", "file")  # paths in a config's task and model
# Marks a setting added after runs were recorded: at its default it is left out of the config, so that run ids do
# not change.
ADDED_LATER = "added_later"


class Records:
    """Records in one file of a folder."""

    def __init__(self, folder: Path, warn: Warn | None = None, name: str = NAME) -> None:
        self.path, self.warn = folder / name, warn or ignore

    def beside(self, name: str) -> "Records":
        """Return the records of another file in the same folder."""
        return Records(self.path.parent, self.warn, name)

    def read(self) -> list[Record]:
        """Return all records; skip damaged lines, with a warning that names each."""
        found: list[Record] = []
        for number, line in numbered_lines(self.path):
            try:
                record = with_new_names(json.loads(line))
                if not has_numbers_in_range(record):
                    raise ValueError("out of range")
                found.append({**record, "run": str(record["run"]), "accuracy": float(record["accuracy"])})
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
                self.warn(f"{self.path}, line {number} is damaged and skipped")
        return found

    def by_run(self) -> dict[str, Record]:
        """Return the records by run id; raise if two disagree."""
        found: dict[str, Record] = {}
        for record in self.read():
            known = found.setdefault(record["run"], record)
            if wrong := differences(known, record):
                raise InputError(
                    f"{self.path} holds two results of run {record['run']} that disagree: {in_one_clause(wrong)}; "
                    "find out which is right and remove the other"
                )
        return found

    def require_agreement(self, records: Iterable[Record]) -> dict[str, Record]:
        """Return existing records by run id; raise if a new record contradicts them or another new one."""
        there = self.by_run()
        known = dict(there)
        for record in records:
            before = known.setdefault(record["run"], record)
            if wrong := differences(before, record):
                raise InputError(
                    f"run {record['run']} is in {self.path} with another result: {in_one_clause(wrong)}; "
                    "nothing was added"
                )
        return there

    def append(self, records: Iterable[Record]) -> int:
        """Append the new runs, all or none, and return their number; raise if a record disagrees."""
        records = list(records)
        if not records:
            return 0

        def fresh() -> list[Record]:
            known = self.require_agreement(records)
            new = {record["run"]: record for record in reversed(records) if record["run"] not in known}
            return list(reversed(new.values()))

        return append_lines(self.path, fresh)


def key_of(run: Record) -> str:
    """Return the key of one seed's run: the seeds of a folder share its id."""
    return f"{run['run']}/{run['seed']}"


def with_new_names(result: Record) -> Record:
    """Return a result with current keys."""
    return {RENAMED.get(key, key): value for key, value in result.items()}


def differences(first: Record, second: Record) -> list[str]:
    """Name what two records of one run disagree about."""
    return disagreements(facts_of(first), facts_of(second))


def facts_of(record: Record) -> Record:
    """Return a record without its provenance and the paths of data and user files."""
    facts = {key: value for key, value in record.items() if key not in (*CIRCUMSTANCES, *MEASURED_ANEW)}
    if isinstance(facts.get("config"), dict):
        facts["config"] = {
            part: {key: each for key, each in value.items() if key not in PLACES} if isinstance(value, dict) else value
            for part, value in facts["config"].items()
        }
    return facts


def ignore(_: str) -> None:
    pass
