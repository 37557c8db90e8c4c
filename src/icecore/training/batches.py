"""Prepare a task's batches for an engine."""

from icecore.models.engines import Batches, Engine, ModelBatch, ModelBatches, ShapeBuckets
from icecore.tasks import Batch


def prepare_batches(
    engine: type[Engine], vocab_size: int, batch: Batch, rows: int, buckets: ShapeBuckets | None = None
) -> ModelBatches:
    """Prepare a long batch as consecutive steps of `rows` rows."""
    tokens, targets, scored, *log_probs = (part.unflatten(0, (-1, rows)) for part in batch.parts())
    batches = Batches(tokens, targets, scored, vocab_size, log_probs[0] if log_probs else None)
    return engine.prepare(batches, buckets)


def prepare_batch(engine: type[Engine], vocab_size: int, batch: Batch) -> ModelBatch:
    """Prepare a whole batch as one step."""
    return prepare_batches(engine, vocab_size, batch, len(batch)).step(0)
