"""Room on the disk: refuse a run whose files would not fit, before it begins."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from icecore.errors import require
from icecore.training.config import RunConfig
from icecore.training.snapshots import snapshots_in, trained_until
from icecore.training.start import FromRun

GB, FLOAT = 10**9, 4
CHECKPOINTS = 2 * 3  # values and both moments; a new one is written beside the old one


def require_room(folder: Path, config: RunConfig, snapshots: Iterable[int], with_body: bool = False) -> None:
    """Raise if the disk has no room for what a run has still to write."""
    specs, there = config.model.specs(config.dims), set(snapshots_in(folder))
    missing = [step for step in snapshots if step not in there]

    def bytes_of(names: Iterable[str]) -> int:
        return FLOAT * len(config.seeds) * sum(specs[name].size for name in names)

    along = sum(bytes_of(trained_until(config, step)) for step in missing)
    trained = config.trained_names
    needed = along + CHECKPOINTS * bytes_of(trained) + bytes_of(specs if with_body else trained)
    if isinstance(config.start, FromRun) and config.start.taken is not None:
        needed += bytes_of(config.start.taken.values)
    needed -= sum(file.stat().st_size for file in folder.glob("*.safetensors"))  # of a run that resumes
    above = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    free = shutil.disk_usage(above).free
    each = f", {along / GB:,.1f} GB of it for {len(missing):,} snapshots," if missing else ""
    way_out = "take fewer --snapshots, or another --out" if missing else "choose another --out"
    require(
        needed <= free,
        f"the run needs about {needed / GB:,.1f} GB on the disk{each} and {free / GB:,.1f} GB are free in {above}: "
        f"{way_out}",
    )
