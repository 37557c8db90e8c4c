"""How training computes models fast. Each engine computes what its model's `logits` gives, which is its reference.

`base.py` is the protocol, `reference.py` the engine of any model as it is written. `transformer.py` computes whole
windows (`windows.py`) or, where sequences share prefixes, each distinct prefix once (`prefix_tree.py` finds them,
`prefix_index.py` is the index of a step, `prefixes.py` computes by it). `lstm.py` packs sequences by time.
"""

from icecore.models.engines.base import Batches, Engine, ModelBatch, ModelBatches, Targets
from icecore.models.engines.reference import ReferenceEngine
from icecore.models.engines.shape_buckets import ShapeBuckets

__all__ = ["Batches", "Engine", "ModelBatch", "ModelBatches", "ReferenceEngine", "ShapeBuckets", "Targets"]
