"""The paper's claim at laptop size: a random body with trained embeddings, beside what it is held against."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icecore.models import Transformer
from icecore.tasks import DecimalAddition, ModularAddition, Needle, Parentheses, Task
from icecore.training import Watch, train

# The gain of width 1024 at width 128: with the released initialization so narrow a random body fails.
MODEL = Transformer(width=128, init="matched")
SEEDS = 3


@dataclass(frozen=True)
class Size:
    """A task small enough for a laptop, and how it is trained."""

    task: Task
    batch: int
    lr: float  # of the embeddings
    random_steps: int
    normal_steps: int


SIZES = (
    Size(ModularAddition(modulus=59, train_fraction=0.9), batch=256, lr=2e-2, random_steps=1300, normal_steps=400),
    Size(Needle(max_pairs=4, values=16, vocabulary=25, test_size=300), 128, 2e-2, random_steps=650, normal_steps=900),
    Size(
        DecimalAddition(digits=2, scored="target-is-digit", test_size=300),
        batch=128,
        lr=2e-2,
        random_steps=800,
        normal_steps=600,
    ),
    Size(Parentheses(max_pairs=8, min_length=8, test_size=300), 128, 1e-2, random_steps=400, normal_steps=300),
)
NORMAL_LR = 1e-3  # a body in training does not bear the embeddings' rate
UNEMBED_STEPS = 300


@dataclass(frozen=True)
class Row:
    """One task: accuracies on its test items."""

    task: str
    floor: float  # the best rule that needs no learning
    unembed_only: float
    random: list[float]
    normal: list[float]


def runs_of(size: Size) -> dict[str, dict[str, Any]]:
    """The three trainings of a task, by name."""
    common = {"batch": size.batch, "warmup_steps": 50}
    return {
        "random": {"trainable": "embeddings", "seeds": SEEDS, "steps": size.random_steps, "lr": size.lr, **common},
        "normal": {"trainable": "all", "steps": size.normal_steps, "lr": NORMAL_LR, **common},
        "unembed_only": {"trainable": "unembed", "steps": UNEMBED_STEPS, "lr": size.lr, **common},
    }


def total_steps() -> int:
    """Of all runs together, each step counted once a seed: what progress is measured in."""
    return sum(run["steps"] * run.get("seeds", 1) for size in SIZES for run in runs_of(size).values())


def run_demo(out: Path, watch_of: Callable[[str, int], Watch]) -> Iterator[Row]:
    """Train what is not there yet; a row as soon as a task is through. `watch_of` is told of each run and its steps."""
    for size in SIZES:
        accuracy: dict[str, list[float]] = {}
        for name, settings in runs_of(size).items():
            watch = watch_of(
                f"{size.task.name}, {name.replace('_', ' ')}", settings["steps"] * settings.get("seeds", 1)
            )
            runs = train(size.task, MODEL, **settings, out=out, resume=None, device="cpu", watch=watch)
            accuracy[name] = runs.accuracy
        floor = max(size.task.floors().values())
        yield Row(size.task.name, floor, accuracy["unembed_only"][0], accuracy["random"], accuracy["normal"])
