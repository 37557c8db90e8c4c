"""The paper's tasks and models at laptop size: small enough for two cores, large enough to tell models apart.

Sizes, learning rates and steps were tuned by accuracy on these test sets, until whatever is learnable was learned in
the available time. A result at this size illustrates the claim; it is not a blind measurement. The exception is
modular addition around a random body, which was chosen with other seeds and without the test items (see below).
"""

from dataclasses import dataclass, replace
from typing import Any

from icecore.models import LSTM, Model, Transformer
from icecore.tasks import (
    DecimalAddition,
    Imitation,
    Memorization,
    ModularAddition,
    Needle,
    Parentheses,
    Task,
    make_task,
)
from icecore.tasks.ladder import Parity
from icecore.training.presets import source_of

NARROWEST = 8


@dataclass(frozen=True)
class Training:
    steps: int
    lr: float
    warmup_steps: int = 50
    weight_decay: float | None = None  # the preset's

    @property
    def settings(self) -> dict[str, float]:
        """Return the settings that are given, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class LaptopRecipe:
    """A small version of a task, and training settings per kind of model."""

    task: Task
    batch: int
    random: Training  # embeddings only, at any width
    normal: Training  # everything; a trained body needs a lower rate than embeddings
    narrow: Training  # everything, at width 8
    lstm: Training
    embed: Training  # token and position embeddings only, which learn more slowly

    def training_of(self, model: Model, trainable: str) -> dict[str, Any]:
        if model.name == "lstm":
            chosen = self.lstm
        elif trainable != "all":
            chosen = self.embed if trainable == "embed" else self.random
        else:
            chosen = self.narrow if model.width == NARROWEST else self.normal
        return {"batch": self.batch, **chosen.settings}


RECIPES = (
    LaptopRecipe(
        ModularAddition(modulus=59),
        batch=256,
        # Chosen without the demo's seeds and test items: seeds 100 to 107, a nineteenth of the training items held out.
        # 2,600 steps left two of the eight seeds below 99 % (91.4, 96.6), 4,000 left one (96.6). A weight decay of 1
        # was worse with 2,600 steps (79.3 in one of four seeds).
        random=Training(4000, 2e-2, weight_decay=0.3),
        normal=Training(400, 1e-3),
        narrow=Training(4000, 2e-2),
        lstm=Training(1300, 5e-3),
        embed=Training(1300, 2e-2),
    ),
    LaptopRecipe(
        Needle(max_pairs=4, values=16, vocabulary=25, test_size=300),
        batch=128,
        random=Training(650, 2e-2),
        normal=Training(700, 1e-3, warmup_steps=400),  # with a short warm-up, two of three seeds stay near 56 %
        narrow=Training(900, 1e-2),
        lstm=Training(900, 5e-3),
        embed=Training(1200, 2e-2),
    ),
    LaptopRecipe(
        DecimalAddition(digits=2, scored="target-is-digit", test_size=300),
        batch=128,
        random=Training(800, 2e-2),
        normal=Training(600, 1e-3),
        narrow=Training(600, 1e-2),
        lstm=Training(600, 5e-3),
        embed=Training(800, 2e-2),
    ),
    LaptopRecipe(
        Parentheses(max_pairs=8, min_length=8, test_size=300),
        batch=128,
        random=Training(400, 1e-2),
        normal=Training(300, 1e-3),
        narrow=Training(600, 1e-2),
        lstm=Training(300, 5e-3),
        embed=Training(600, 1e-2),
    ),
)


def of_transformers(task: Task, batch: int, random: Training, normal: Training) -> LaptopRecipe:
    """Return a recipe for transformers only, the same at every width."""
    return LaptopRecipe(task, batch, random, normal, narrow=normal, lstm=normal, embed=random)


# Not in the demo.
OTHER_RECIPES = (
    of_transformers(Memorization(keys=48), 576, random=Training(700, 2e-2), normal=Training(700, 1e-2)),
    of_transformers(
        Imitation(length=3, vocabulary=16, test_size=300), 64, random=Training(300, 2e-2), normal=Training(400, 5e-3)
    ),
    of_transformers(Parity(length=12), 128, random=Training(1500, 2e-2), normal=Training(1500, 3e-3, warmup_steps=100)),
)


def recipe_for(task: str) -> LaptopRecipe:
    return next(recipe for recipe in (*RECIPES, *OTHER_RECIPES) if recipe.task.name == task)


def small_task(task: str, preset: str) -> Task:
    """Return the small task; presets differ only in the target of imitation."""
    small = recipe_for(task).task
    if isinstance(small, Imitation):
        of_preset = make_task(task, source_of(preset))
        assert isinstance(of_preset, Imitation)
        return replace(small, target_init=of_preset.target_init)
    return small


def small_transformer(width: int) -> Transformer:
    """Return an eighth of the width with the gain of width 1024, without which so narrow a random body fails."""
    return Transformer(width=max(NARROWEST, width // 8), init="matched")


# With the scripts' standard deviation. With the gain of width 1024 it memorizes more than the paper's of width 128.
SMALL_MEMORIZER = Transformer(width=16)
SMALL_LSTM = LSTM(width=128)
