"""icecore: what can a random transformer already do?

import icecore as ice

task = ice.tasks.Needle(max_pairs=30)
runs = ice.train(task, ice.Transformer(width=512), trainable="embeddings", seeds=10)
runs.accuracy  # one a seed
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from icecore import analysis, models, tasks, training
    from icecore.models import LSTM, Transformer
    from icecore.reporting.comparison import compare
    from icecore.training import TrainedRun, load, train

# Loaded when first used: torch takes seconds to import, and `icecore --help` needs none of it.
HOME = {
    "Transformer": "models",
    "LSTM": "models",
    "train": "training",
    "load": "training",
    "TrainedRun": "training",
    "compare": "reporting.comparison",
}
PACKAGES = ("analysis", "models", "tasks", "training")

__all__ = ["LSTM", "TrainedRun", "Transformer", "analysis", "compare", "load", "models", "tasks", "train", "training"]


def __getattr__(name: str) -> Any:
    if name in PACKAGES:
        return importlib.import_module(f"icecore.{name}")
    if name in HOME:
        return getattr(importlib.import_module(f"icecore.{HOME[name]}"), name)
    raise AttributeError(f"module 'icecore' has no attribute '{name}'")
