"""A frozen body of one's own: a GRU beside a transformer, as a sweep that goes on where it was left.

python examples/own_body.py     # about a minute on two cores; a second time it only prints
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import icecore as ice
from icecore.models import MODELS, Model, Parameters, Sizes, Spec
from icecore.store import Records
from icecore.sweeps.cells import Cell
from icecore.sweeps.runner import missing, run_missing


@dataclass(frozen=True)
class GRU(Model):
    """One layer, with PyTorch's initialization. All there is to say: parameters with their roles, and what they do."""

    width: int = 128
    name: ClassVar[str] = "gru"
    roles: ClassVar[tuple[str, ...]] = ("token", "unembed", "recurrent")
    vectorizes: ClassVar[bool] = False  # torch.func.vmap knows no GRU: seeds run one after the other

    def specs(self, sizes: Sizes) -> dict[str, Spec]:
        width, bound = self.width, 1 / math.sqrt(self.width)
        return {
            "token": Spec((sizes.vocab_size, width), "token", 1.0),
            "from_input": Spec((3 * width, width), "recurrent", bound, "uniform"),
            "from_state": Spec((3 * width, width), "recurrent", bound, "uniform"),
            "unembed": Spec((sizes.vocab_size, width), "unembed", bound, "uniform"),
        }

    def hidden(self, parameters: Parameters, tokens: Int64[Tensor, "batch seq"]) -> Float[Tensor, "batch seq width"]:
        inputs = parameters["token"][tokens]
        start = inputs.new_zeros(1, len(tokens), self.width)
        weights = [parameters["from_input"], parameters["from_state"]]
        return torch.gru(inputs, start, weights, False, 1, 0.0, torch.is_grad_enabled(), False, True)[0]

    def unembed(self, parameters: Parameters, hidden: Float[Tensor, "*places width"]) -> Float[Tensor, "*places vocab"]:
        return hidden @ parameters["unembed"].T


MODELS[GRU.name] = GRU  # so that its runs can be loaded


def compare(cells: Sequence[Cell], seeds: int, folder: Path) -> dict[str, float]:
    """The median test accuracy of each cell; what is recorded in the folder is not trained again."""
    records = Records(folder)
    populations = missing(cells, seeds, records, "fp32", "cpu")
    failures = run_missing(
        populations, records, folder, "cpu", "fp32", lambda _: None, lambda done, each: print(done.label, each)
    )
    assert not failures, failures
    by_setting = {cell.setting: cell.label for cell in cells}
    accuracies: dict[str, list[float]] = {cell.label: [] for cell in cells}
    for record in records.by_run().values():
        if record["setting"] in by_setting:
            accuracies[by_setting[record["setting"]]].append(record["accuracy"])
    return {label: statistics.median(each) for label, each in accuracies.items()}


if __name__ == "__main__":
    task = ice.tasks.Needle(max_pairs=4, values=16, vocabulary=25, test_size=300)
    training = {"steps": 650, "batch": 128, "lr": 2e-2, "warmup_steps": 50}
    bodies = {"GRU": GRU(128), "transformer": ice.Transformer(128, init="matched")}
    cells = [
        Cell(f"needle, random {name}", task, body, "embeddings", optimization=training) for name, body in bodies.items()
    ]
    for label, accuracy in compare(cells, 2, Path("runs/own-body")).items():
        print(f"{label}: {accuracy:.3f}, floor {max(task.floors().values()):.3f}")
