"""Run ids, and the bits that CPU training ends with, stay what they were: records and resumed runs depend on both.

`python tests/test_pins.py` writes tests/pins.json anew. Do that only when a change of ids or bits is meant, and say
so in the commit.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

import icecore as ice
from icecore.bench.language import RandomText
from icecore.process import configure_process
from icecore.tasks import DecimalAddition, Imitation, Memorization, ModularAddition, Needle, Parentheses
from icecore.training.config import name_of

pytestmark = pytest.mark.shapes

PINS = Path(__file__).with_name("pins.json")
RESULTS = Path(__file__).parents[1] / "results"
NEEDLE = Needle(max_pairs=3, values=9, vocabulary=20, test_size=40)
NARROW = ice.Transformer(width=16, heads=2)


@dataclass(frozen=True)
class Halved(ice.Transformer):
    """A body that training computes as it is written. Its text is part of its run's id."""

    name: ClassVar[str] = "halved"

    def hidden(self, parameters, tokens, hook=None):
        return super().hidden(parameters, tokens, hook) / 2


# Every way that training computes: shared prefixes, prefix sums, whole windows, finite sets, several seeds, an LSTM, a
# target's distribution, a body without a fast path.
RUNS: dict[str, tuple[Any, ...]] = {
    "needle, embeddings": (NEEDLE, NARROW, "embeddings", 3),
    "needle, all": (NEEDLE, NARROW, "all", 2),
    "needle, one layer, roles": (NEEDLE, ice.Transformer(width=16, layers=1, heads=2), "token,q,norm", 2),
    "needle, three layers": (NEEDLE, ice.Transformer(width=16, layers=3, heads=2, init="matched"), "embed", 2),
    "needle, prefix sums": (NEEDLE, ice.Transformer(width=16, heads=2, attention="prefix-sum"), "all", 2),
    "needle, sinusoidal": (NEEDLE, ice.Transformer(width=16, position_init="sinusoidal"), "token+unembed", 1),
    "needle, lstm": (NEEDLE, ice.LSTM(width=16), "all", 2),
    "needle, plain": (NEEDLE, Halved(width=16, heads=2), "embeddings", 2),
    "windows": (RandomText(window=66, vocabulary=30, test_size=9), NARROW, "all", 2),
    "windows, prefix sums": (RandomText(66, 30, 9), ice.Transformer(16, attention="prefix-sum"), "embeddings", 2),
    "modular addition": (ModularAddition(modulus=13), NARROW, "embeddings", 2),
    "decimal addition": (DecimalAddition(digits=2, test_size=40), NARROW, "unembed", 2),
    "parentheses": (Parentheses(max_pairs=4, min_length=4, test_size=40), NARROW, "all", 2),
    "memorization": (Memorization(keys=8), NARROW, "embeddings", 2),
    "imitation": (Imitation(length=3, vocabulary=16, target_width=4, test_size=40), NARROW, "embeddings", 2),
}


def train_pinned(name: str) -> dict[str, Any]:
    """Train a run for a few steps on one thread, and return its id, a hash of all its weights, and its losses."""
    configure_process()
    task, model, trainable, seeds = RUNS[name]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        runs = ice.train(task, model, trainable, seeds, device="cpu", steps=7, batch=24, lr=1e-2, warmup_steps=2)
    finally:
        torch.set_num_threads(threads)
    sha = hashlib.sha256()
    for seed in range(seeds):
        for key, value in sorted(runs.parameters(seed).items()):
            sha.update(key.encode() + value.contiguous().numpy().tobytes())
    return {"id": runs.config.run_id, "sha256": sha.hexdigest(), "loss": runs.result["loss"]}


def processor() -> str:
    """A hash of elementary operations: two machines with the same one should train to the same bits."""
    configure_process()
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(70, 70, generator=generator) for _ in range(2))
    found = [x @ y, x.softmax(dim=1), torch.nn.functional.gelu(x, approximate="tanh"), x.sum(dim=0), x.tanh(), y.exp()]
    found.append(torch.nn.functional.layer_norm(x, (70,)))
    return hashlib.sha256(b"".join(each.numpy().tobytes() for each in found)).hexdigest()


@pytest.mark.parametrize("name", RUNS)
def test_ids_and_final_weights_are_what_they_were(name):
    pins = json.loads(PINS.read_text())
    made, pinned = train_pinned(name), pins["runs"][name]
    assert made["id"] == pinned["id"]
    # Another processor or torch rounds otherwise; in 7 steps that moves a loss by far less than this.
    assert made["loss"] == pytest.approx(pinned["loss"], rel=1e-3)
    if (processor(), torch.__version__) == (pins["processor"], pins["torch"]):
        assert made["sha256"] == pinned["sha256"]


@pytest.mark.parametrize("file", ["runs.jsonl", "inside.jsonl"])
def test_every_stored_record_has_the_id_of_its_config(file):
    for line in (RESULTS / file).read_text().splitlines():
        record = json.loads(line)
        assert name_of(record["config"]) == record["run"]


if __name__ == "__main__":
    found = {"processor": processor(), "torch": torch.__version__, "runs": {name: train_pinned(name) for name in RUNS}}
    PINS.write_text(json.dumps(found, indent=1) + "\n")
