"""Training settings: AdamW with warm-up and a schedule."""

import math
from dataclasses import dataclass
from typing import Literal

from icecore.errors import require, require_choices

MOST = 10_000_000  # steps, or items per batch: more would run silently for minutes, then out of memory


@dataclass(frozen=True)
class TrainingConfig:
    """AdamW with warm-up and a schedule; SOURCE for the defaults: appendix D.3 and the released scripts."""

    steps: int = 10_000
    batch: int = 1_000
    lr: float = 1e-3
    weight_decay: float = 1e-3  # for matrices, including embeddings; not for biases and norms
    warmup_steps: int = 500
    schedule: Literal["cosine", "constant"] = "cosine"
    clip: float = 1.0  # gradient norm of each seed

    def __post_init__(self) -> None:
        for field in ("steps", "batch", "warmup_steps"):
            value = getattr(self, field)
            require(type(value) is int, f"{field} must be a whole number, got {value!r}")
            require(value <= MOST, f"{field} must be at most {MOST:,}, got {value}")
            require(value >= 1 or field == "warmup_steps", f"{field} must be at least 1, got {value}")
        for field in ("lr", "weight_decay", "warmup_steps", "clip"):
            value = getattr(self, field)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            require(is_number, f"{field} must be a number, got {value!r}")
            require(math.isfinite(value) and value >= 0, f"{field} must be at least 0 and finite, got {value}")
        require(self.clip > 0, f"clip must be above 0, got {self.clip}; a large value, such as 1e9, disables it")
        require_choices(self)

    @property
    def advice(self) -> str | None:
        """Return a warning if the settings look like a mistake, else None."""
        if self.warmup_steps < self.steps:
            return None
        reached = self.lr * (self.steps - 1) / self.warmup_steps
        fewer = max(1, self.steps // 10) if self.steps > 1 else 0
        return (
            f"all {self.steps:,} steps are within the warm-up of {self.warmup_steps:,}, so the rate ends at "
            f"{reached:.1e} of {self.lr:g}; give more steps, or {fewer} warm-up step{'s' * (fewer != 1)}"
        )

    def lr_at(self, step: int) -> float:
        """Return the learning rate of a step. SOURCE: Hugging Face's cosine schedule, whose step 0 has rate 0."""
        if step < self.warmup_steps:
            return self.lr * step / self.warmup_steps
        if self.schedule == "constant":
            return self.lr
        done = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        return self.lr * 0.5 * (1 + math.cos(math.pi * done))
