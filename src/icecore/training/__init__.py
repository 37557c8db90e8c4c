"""Train a population of seeds of one model on one task."""

from icecore.errors import Interrupted
from icecore.training.config import Phase, RunConfig, numbered
from icecore.training.evaluation import device_name, evaluate
from icecore.training.make_config import config_of
from icecore.training.population import Population, scored_losses
from icecore.training.precision import Precision, pick_precision
from icecore.training.progress import Intervals, Progress, ProgressCallback
from icecore.training.run import TrainedRun, index_of, load, pick_device, require_sound, train, train_config
from icecore.training.run_folder import HeldRun, RunFolder
from icecore.training.training_config import TrainingConfig

__all__ = [
    "HeldRun",
    "Interrupted",
    "Intervals",
    "Phase",
    "Population",
    "Precision",
    "Progress",
    "ProgressCallback",
    "RunConfig",
    "RunFolder",
    "TrainedRun",
    "TrainingConfig",
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
