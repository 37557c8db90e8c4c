"""The paper's claim at laptop size: a random body with trained embeddings, beside baseline, U only and Normal."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icecore.sweeps.laptop import RECIPES, LaptopRecipe, small_transformer
from icecore.training import ProgressCallback, train

MODEL = small_transformer(1024)
SEEDS = 3
UNEMBED_STEPS = 300
PLAYED = ("needle", "parentheses", "modular-addition")  # tasks of `icecore playground`
PLAYED_SEEDS, SAVED = 2, 80  # snapshots along the way


@dataclass(frozen=True)
class Row:
    """Test accuracies on one task."""

    task: str
    baseline: float  # the best rule that needs no learning
    unembed_only: float
    random: list[float]
    normal: list[float]


def runs_of(recipe: LaptopRecipe) -> dict[str, dict[str, Any]]:
    """Return the arguments of a task's three runs, by name."""
    embeddings, everything = (recipe.training_of(MODEL, trainable) for trainable in ("embeddings", "all"))
    return {
        "random": {"trainable": "embeddings", "seeds": SEEDS, **embeddings},
        "normal": {"trainable": "all", "seeds": SEEDS, **everything},
        "unembed_only": {"trainable": "unembed", "seeds": 1, **embeddings, "steps": UNEMBED_STEPS},
    }


def total_steps() -> int:
    """Return the steps of all runs, counted per seed: the unit of progress."""
    return sum(run["steps"] * run["seeds"] for recipe in RECIPES for run in runs_of(recipe).values())


def run_demo(out: Path, progress_of: Callable[[str, int], ProgressCallback]) -> Iterator[Row]:
    """Train missing runs; yield a row per finished task. `progress_of(run, steps)` returns a progress callback."""
    for recipe in RECIPES:
        accuracy: dict[str, list[float]] = {}
        for name, settings in runs_of(recipe).items():
            watch = progress_of(f"{recipe.task.name}, {name.replace('_', ' ')}", settings["steps"] * settings["seeds"])
            runs = train(recipe.task, MODEL, **settings, out=out, resume=None, device="cpu", on_progress=watch)
            accuracy[name] = runs.accuracy
        baseline = max(recipe.task.baselines().values())
        yield Row(recipe.task.name, baseline, accuracy["unembed_only"][0], accuracy["random"], accuracy["normal"])


def played_runs() -> dict[str, dict[str, Any]]:
    """Return the arguments of the runs to play with, by task: embeddings around two random bodies."""
    chosen = {recipe.task.name: recipe for recipe in RECIPES if recipe.task.name in PLAYED}
    return {task: {**runs_of(chosen[task])["random"], "seeds": PLAYED_SEEDS} for task in PLAYED}


def train_played(out: Path, progress_of: Callable[[str, int], ProgressCallback]) -> list[Path]:
    """Train missing runs to play with, with snapshots, and return their folders."""
    found = []
    for task, settings in played_runs().items():
        watch = progress_of(task, settings["steps"] * settings["seeds"])
        recipe = next(recipe for recipe in RECIPES if recipe.task.name == task)
        run = train(
            recipe.task, MODEL, **settings, out=out, resume=None, device="cpu", on_progress=watch, snapshots=SAVED
        )
        assert run.path is not None
        found.append(run.path)
    return found
