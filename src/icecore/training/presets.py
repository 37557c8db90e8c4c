"""Training settings per task, of the released scripts and of the paper.

The preset `reconstructed` is our best account of the runs behind the published numbers. It joins three parts, each of
which is also a setting of its own:

- Test items stay in the training data (`--preset unfiltered`). Known: the authors' first code commit (c2839cc) has a
  stream script that keeps them, and the released one rejects them. Inferred, from the paper's 100.0 for parentheses:
  the published runs kept them.
- Two GPUs (`--batch`, `--steps`). Known: the scripts set the batch per GPU, and Hugging Face's trainer multiplies it by
  the GPUs it sees; the paper thanks MIT SuperCloud and counts V100 days. Inferred, from that system's numbers of V100s
  and processors: two GPUs per node. Hypothesis: the authors' jobs saw both. Stream tasks and imitation keep their
  steps; modular addition and memorization count epochs, so they take half as many.
- LSTMs train at 5e-3 (`--lr`). Known: the paper says so. But the script that keeps test items has 1e-3, so the
  first and the last part need not belong to one run.

Language models keep the released settings: our text differs from the paper's anyway.
"""

from typing import Any, Literal

from icecore.errors import choices_of
from icecore.models import SHIPPED, Model, ModelDims
from icecore.tasks import Language, Task
from icecore.training.training_config import TrainingConfig

# SOURCE: section 2's table of the paper's settings: positions, steps, batch.
POSITIONS = {
    "modular-addition": 5,
    "needle": 100,
    "decimal-addition": 40,
    "parentheses": 80,
    "imitation": 40,
    "memorization": 5,
    "language": 1024,  # SOURCE: released script; the text says 512
}
TRAINING: dict[str, dict[str, Any]] = {
    "modular-addition": {"steps": 50_000, "batch": 4_000},  # 5,000 epochs of 10 batches, the last one smaller
    "memorization": {"steps": 168_000, "batch": 2**15},  # 21,000 epochs of 8 batches
    "language": {"batch": 20, "lr": 6e-4, "weight_decay": 0.1},
}
EPOCHS = 5  # SOURCE: appendix D.3; for language. DIFFERS: the script uses dropout .1, the text and we use none.
# DIFFERS: the memorization script intends lr 1e-3 for a transformer, but compares a string literal and always
# uses 5e-3; its weight decay also differs from the text's.
MEMORIZATION = {
    "released": {"lr": 5e-3, "weight_decay": 1e-4},
    "paper": {"lr": 1e-3, "weight_decay": 1e-3},
}
LSTM_LR = {"released": 1e-3, "paper": 5e-3, "reconstructed": 5e-3}  # DIFFERS: the script defaults to 1e-3
STREAMED = ("needle", "decimal-addition", "parentheses", "imitation")  # tasks that count steps, not epochs
OF_TWO_GPUS: dict[str, dict[str, Any]] = {
    **{task: {"batch": 2_000} for task in STREAMED},
    "modular-addition": {"steps": 25_000, "batch": 8_000},  # 5,000 epochs of 5 batches
    "memorization": {"steps": 84_000, "batch": 2**16},  # 21,000 epochs of 4 batches
}

# The paper's default models.
MODEL: dict[str, dict[str, Any]] = {
    "memorization": {"width": 128},
    "imitation": {"width": 256, "layers": 3},  # SOURCE: released script
    "language": {"width": 512, "layers": 4, "heads": 8},
}
MODEL_OF_TEXT: dict[str, dict[str, Any]] = {"imitation": {"width": 512}}  # SOURCE: section 6.2; 3 layers, or 1


def source_of(preset: str) -> Literal["released", "paper"]:
    """Return the source of a preset's training settings; a task's own presets use the scripts'."""
    return "paper" if preset == "paper" else "released"


def preset_training(task: Task, model: Model, preset: str, batch: int | None = None) -> TrainingConfig:
    """Return the preset's training settings; for language, the steps depend on the batch."""
    values: dict[str, Any] = dict(TRAINING.get(task.name, {}))
    source = source_of(preset)
    if model.name == "lstm":
        values["lr"] = LSTM_LR.get(preset, LSTM_LR[source])
    if task.name == "memorization":
        values |= MEMORIZATION[source]
    if preset == "reconstructed":
        values |= OF_TWO_GPUS.get(task.name, {})
    if isinstance(task, Language) and task.folder is not None:
        values["steps"] = epochs_in_steps(EPOCHS, task, max(1, batch or values["batch"]))
    return TrainingConfig(**values)


def epochs_in_steps(epochs: float, task: Language, batch: int) -> int:
    """Return the number of steps that train on `epochs` times the tokens of the train split."""
    return max(1, round(epochs * len(task.tokens_of("train")) / (batch * task.window)))


def preset_model(task: Task, model_class: type[Model], preset: str) -> dict[str, Any]:
    """Return the preset's model settings; the paper's initialization differs from the scripts'.

    A user-defined model gets none: its fields may mean something else.
    """
    if model_class not in SHIPPED:
        return {}
    fields = model_class.__dataclass_fields__  # type: ignore[attr-defined]
    source = source_of(preset)
    of_text = MODEL_OF_TEXT.get(task.name, {}) if source == "paper" else {}
    values = {**MODEL.get(task.name, {}), **of_text}
    if source in choices_of(model_class).get("init", ()):
        values["init"] = source
    return {name: value for name, value in values.items() if name in fields}


def preset_dims(task: Task, positions: int | None = None) -> ModelDims:
    """Return the paper's number of positions, or more if the task needs more."""
    if positions is None:
        positions = max(POSITIONS.get(task.name, 0), task.max_length)
    return ModelDims(task.vocab_size, positions)
