"""Training a population of seeds of one model on one task."""

from icecore.errors import Interrupted
from icecore.training.config import Phase, RunConfig, numbered
from icecore.training.loop import Intervals, Progress, ProgressCallback, device_name, evaluate
from icecore.training.optimization import Optimization
from icecore.training.population import Population, scored_losses
from icecore.training.precision import Precision, pick_precision
from icecore.training.run_folder import RunFolder
from icecore.training.runs import Runs, config_of, index_of, load, pick_device, require_sound, train, train_config

__all__ = [
    "Interrupted",
    "Intervals",
    "Optimization",
    "Phase",
    "Population",
    "Precision",
    "Progress",
    "ProgressCallback",
    "RunConfig",
    "RunFolder",
    "Runs",
    "config_of",
    "device_name",
    "evaluate",
    "index_of",
    "load",
    "numbered",
    "pick_device",
    "pick_precision",
    "require_sound",
    "scored_losses",
    "train",
    "train_config",
]
