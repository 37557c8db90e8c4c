"""A construction's weights for one task: computing with them, writing and reading them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from icecore.constructions.registry import CONSTRUCTIONS, Construction, construction_of
from icecore.errors import InputError, require
from icecore.models import ModelDims, Transformer
from icecore.store.tensors import load_weights, notes_of, save_tensors, shapes_of
from icecore.tasks import Batch, ModularAddition, Task, make_task
from icecore.training.identity import settings_of
from icecore.training.run import checked_task

ROWS_AT_ONCE = 4_000
FORMAT = "icecore construction"


@dataclass(frozen=True, eq=False, repr=False)
class Constructed:
    """Weights in float64 that solve a task, and the model that computes with them."""

    construction: Construction
    task: Task
    model: Transformer
    parameters: Mapping[str, Tensor]
    options: Mapping[str, int]

    def __repr__(self) -> str:
        return f"Constructed({self.label}: width {self.model.width}, {self.model.layers} layers)"

    @property
    def label(self) -> str:
        options = ", ".join(f"{name} {value}" for name, value in self.options.items())
        return f"{self.construction.name}, {options}" if options else self.construction.name

    @property
    def dims(self) -> ModelDims:
        return ModelDims(self.task.vocab_size, self.task.max_length)

    @torch.no_grad()
    def predict(self, batch: Batch, dtype: torch.dtype = torch.float64) -> Int64[Tensor, "batch seq"]:
        """Return the most likely token at every position, computed in a precision."""
        weights = {name: value.to(dtype) for name, value in self.parameters.items()}
        parts = batch.tokens.split(ROWS_AT_ONCE)
        return torch.cat([self.model.logits(weights, part).argmax(dim=-1) for part in parts])

    def save(self, path: Path | str) -> None:
        """Write the weights as safetensors, with what is needed to load them."""
        require(str(path).endswith(".safetensors"), f"weights are written as FILE.safetensors, got '{path}'")
        notes = {
            "format": FORMAT,
            "construction": self.construction.name,
            "options": dict(self.options),
            "task": {"version": self.task.version, **settings_of(self.task)},
            "model": {"name": self.model.name, **dataclasses.asdict(self.model)},
            "positions": self.dims.n_positions,
        }
        save_tensors(Path(path), self.parameters, notes)


def construct(task: Task | str, **options: int) -> Constructed:
    """Return explicit weights that solve a task of the paper: a task, or its name.

    Modular addition takes `copies`, the number of circles: 3 in the paper, and 1 suffices with layer norm.
    """
    made = checked_task(task)
    construction = construction_of(made)
    unknown = options.keys() - construction.options.keys()
    require(not unknown, f"the construction of {made.name} has no {', '.join(sorted(unknown))}")
    chosen = {**construction.options, **options}
    circuit = construction.circuit(made, **chosen)
    return Constructed(construction, made, circuit.model, circuit.parameters(), chosen)


def all_constructed(preset: str = "released") -> list[Constructed]:
    """Return all constructions of the paper's tasks, modular addition with three circles and with one."""
    made = [construct(make_task(name, preset)) for name in CONSTRUCTIONS]
    after = 1 + list(CONSTRUCTIONS).index(ModularAddition.name)
    return [*made[:after], construct(made[after - 1].task, copies=1), *made[after:]]


def load_construction(path: Path | str) -> Constructed:
    """Return the weights that `save` wrote, and their task and model."""
    path = Path(path)
    shapes, notes = shapes_of(path), notes_of(path)
    require(notes.get("format") == FORMAT, f"{path} holds no construction; icecore construct --out FILE writes one")
    construction = CONSTRUCTIONS.get(str(notes.get("construction")))
    try:
        if construction is None:
            raise InputError(f"unknown construction '{notes.get('construction')}'")
        task = make_task(construction.task, settings=notes["task"]["settings"])
        require(notes["task"]["version"] == task.version, f"{task.name} has changed since: write the weights again")
        model = model_of(notes["model"])
        dims = ModelDims(task.vocab_size, task.max_length)
        wanted = {name: spec.shape for name, spec in model.specs(dims).items()}
        require(wanted == shapes and dims.n_positions == notes["positions"], "its weights do not fit its settings")
        options = {str(name): int(value) for name, value in notes["options"].items()}
    except (InputError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error}") from error
    return Constructed(construction, task, model, load_weights(path)[0], options)


def model_of(settings: Mapping[str, Any]) -> Transformer:
    given = dict(settings)
    require(given.pop("name", None) == Transformer.name, "its model is no transformer")
    return Transformer(**given)
