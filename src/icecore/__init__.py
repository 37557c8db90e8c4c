"""icecore: what can a random transformer already do?

import icecore as ice

task = ice.tasks.Needle(max_pairs=30)
run = ice.train(task, ice.Transformer(width=512), trainable="embeddings", seeds=10)
run.accuracy  # one per seed

In a notebook on a busy machine, set OMP_WAIT_POLICY=PASSIVE before torch is imported, as the command line does:
spinning threads cost several times the work.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from icecore import analysis, constructions, models, tasks, training
    from icecore.errors import InputError
    from icecore.models import (
        GRU,
        LSTM,
        DeltaNet,
        LinearAttention,
        Llama,
        Mamba,
        Model,
        ModelDims,
        ParameterSpec,
        Transformer,
    )
    from icecore.models.engines import Engine
    from icecore.reporting.comparison import Comparison, compare
    from icecore.reporting.findings import Findings, analyze, track
    from icecore.reporting.smallest_widths import SmallestWidths
    from icecore.reporting.threshold import threshold
    from icecore.tasks import Batch, Item, Task
    from icecore.training import Phase, TrainedRun, load, train

# Loaded on first use: torch takes seconds to import, and `icecore --help` does not need it.
BODIES = ("DeltaNet", "GRU", "LSTM", "LinearAttention", "Llama", "Mamba", "Transformer")
HOME = {
    **dict.fromkeys((*BODIES, "Model", "ModelDims", "ParameterSpec"), "models"),
    "Engine": "models.engines",
    **dict.fromkeys(("Batch", "Item", "Task"), "tasks"),
    **dict.fromkeys(("Phase", "TrainedRun", "load", "train"), "training"),
    **dict.fromkeys(("Comparison", "compare"), "reporting.comparison"),
    **dict.fromkeys(("Findings", "analyze", "track"), "reporting.findings"),
    "SmallestWidths": "reporting.smallest_widths",
    "threshold": "reporting.threshold",
    "InputError": "errors",
}
PACKAGES = ("analysis", "constructions", "models", "tasks", "training")

__all__ = [
    "GRU",
    "LSTM",
    "Batch",
    "Comparison",
    "DeltaNet",
    "Engine",
    "Findings",
    "InputError",
    "Item",
    "LinearAttention",
    "Llama",
    "Mamba",
    "Model",
    "ModelDims",
    "ParameterSpec",
    "Phase",
    "SmallestWidths",
    "Task",
    "TrainedRun",
    "Transformer",
    "analysis",
    "analyze",
    "compare",
    "constructions",
    "load",
    "models",
    "tasks",
    "threshold",
    "track",
    "train",
    "training",
]


def __getattr__(name: str) -> Any:
    if name in PACKAGES:
        return importlib.import_module(f"icecore.{name}")
    if name in HOME:
        return getattr(importlib.import_module(f"icecore.{HOME[name]}"), name)
    raise AttributeError(f"module 'icecore' has no attribute '{name}'")


def __dir__() -> list[str]:
    """List the public names, which are loaded on first use, so that a notebook completes them."""
    return sorted({*__all__, "__version__"})
