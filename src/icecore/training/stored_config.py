"""Read a stored config, and compare it with the config to train."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from icecore.errors import InputError, require
from icecore.store import read_json
from icecore.training.config import RunConfig
from icecore.training.identity import COPIES, START, differences, without_place

CONFIG = "config.json"
FEW = 3  # runs that an error names


def texts_of(config: RunConfig) -> dict[str, str | None]:
    """Return the texts of the user's task and model by kind, None for ours."""
    return {kind: getattr(config, kind).source_text for kind in COPIES}


def require_same_config(folder: Path, stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise if a folder's run has another config, or the same but started from other weights."""
    if differences(without_place(stored), without_place(wanted)):
        raise InputError(f"{folder / CONFIG} is not the config it was made with; use --overwrite")
    digests = [(each.get(START) or {}).get("where", {}).get("sha256") for each in (stored, wanted)]
    require(
        digests[0] == digests[1],
        f"{folder} was started from other weights than that run has now: restore those, or use --overwrite",
    )


def require_begun(folder: Path) -> None:
    """Raise unless the folder holds a run; name the runs below it, or the folder of a run's file."""
    if (folder / CONFIG).exists():
        return
    below = sorted(str(path.parent) for depth in ("*", "*/*") for path in folder.glob(f"{depth}/{CONFIG}"))
    if folder.is_file():
        raise InputError(f"{folder} is not a run but a file: give its folder, {folder.parent}")
    more = f" and {len(below) - FEW} more" if len(below) > FEW else ""
    hint = f"; its runs are {', '.join(below[:FEW])}{more}" if below else ""
    raise InputError(f"{folder} is not a run: it has no {CONFIG}{hint}")


def read_config(folder: Path) -> dict[str, Any]:
    config = read_json(folder / CONFIG)
    is_config = isinstance(config, dict) and isinstance(config.get("seeds", []), list)
    is_config = is_config and all(
        isinstance(config.get(part), dict) and isinstance(config[part].get("settings", {}), dict) for part in COPIES
    )
    is_config = is_config and all(isinstance(phase.get("optimization"), dict) for phase in phases_of(config))
    start = config.get(START, {}) if is_config else {}
    is_config = is_config and isinstance(start, dict) and isinstance(start.get("where", {}), dict)
    require(is_config, f"{folder / CONFIG} is damaged: it is not the config of a run; delete the folder")
    return config


def phases_of(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the phases of a JSON config, which is itself the only phase or lists several."""
    phases = config.get("phases", [config])
    are_phases = isinstance(phases, list) and bool(phases) and all(isinstance(phase, dict) for phase in phases)
    return phases if are_phases else [{}]
