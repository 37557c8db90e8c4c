"""The paper's claim at laptop size: a random body with trained embeddings, beside what it is held against."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icecore.sweeps.laptop import RECIPES, LaptopRecipe, small_transformer
from icecore.training import ProgressCallback, train

MODEL = small_transformer(1024)
SEEDS = 3
UNEMBED_STEPS = 300


@dataclass(frozen=True)
class Row:
    """One task: accuracies on its test items."""

    task: str
    baseline: float  # the best rule that needs no learning
    unembed_only: float
    random: list[float]
    normal: list[float]


def runs_of(recipe: LaptopRecipe) -> dict[str, dict[str, Any]]:
    """The three trainings of a task, by name."""
    embeddings, everything = (recipe.training_of(MODEL, trainable) for trainable in ("embeddings", "all"))
    return {
        "random": {"trainable": "embeddings", "seeds": SEEDS, **embeddings},
        "normal": {"trainable": "all", "seeds": SEEDS, **everything},
        "unembed_only": {"trainable": "unembed", "seeds": 1, **embeddings, "steps": UNEMBED_STEPS},
    }


def total_steps() -> int:
    """Of all runs together, each step counted once a seed: what progress is measured in."""
    return sum(run["steps"] * run["seeds"] for recipe in RECIPES for run in runs_of(recipe).values())


def run_demo(out: Path, watch_of: Callable[[str, int], ProgressCallback]) -> Iterator[Row]:
    """Train what is not there yet; a row as soon as a task is through. `watch_of` is told of each run and its steps."""
    for recipe in RECIPES:
        accuracy: dict[str, list[float]] = {}
        for name, settings in runs_of(recipe).items():
            watch = watch_of(f"{recipe.task.name}, {name.replace('_', ' ')}", settings["steps"] * settings["seeds"])
            runs = train(recipe.task, MODEL, **settings, out=out, resume=None, device="cpu", on_progress=watch)
            accuracy[name] = runs.accuracy
        baseline = max(recipe.task.baselines().values())
        yield Row(recipe.task.name, baseline, accuracy["unembed_only"][0], accuracy["random"], accuracy["normal"])
