"""Engines: fast computation of models in training. The reference of each is its model's `logits`.

`base.py` is the protocol; `reference.py` runs any model as written. `transformer.py` computes whole windows
(`windows.py`) or, where sequences share prefixes, each distinct prefix once (`prefix_tree.py` finds them,
`prefix_index.py` indexes a step, `prefixes.py` computes with the index). `blocks.py` and `mixers.py` do so for Llama,
linear attention and DeltaNet. `lstm.py` and `mamba.py` pack sequences by time.
"""

from icecore.models.engines.base import Batches, Engine, ModelBatch, ModelBatches, Targets
from icecore.models.engines.reference import ReferenceEngine
from icecore.models.engines.shape_buckets import ShapeBuckets

__all__ = ["Batches", "Engine", "ModelBatch", "ModelBatches", "ReferenceEngine", "ShapeBuckets", "Targets"]
