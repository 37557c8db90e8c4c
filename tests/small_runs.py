"""A small run that tests of runs on disk share."""

import json
import shutil
from pathlib import Path

import torch

import icecore as ice
from icecore.cli import main
from icecore.models import Transformer
from icecore.store.tensors import load_tensors
from icecore.tasks import Needle

TASK = Needle(max_pairs=3, values=20, vocabulary=40, test_size=200)
MODEL = Transformer(width=16, init="matched")
SHORT = {"steps": 12, "batch": 16, "lr": 1e-2, "warmup_steps": 4, "seeds": 2}
CPU = torch.device("cpu")
FLAGS = ["--max-pairs", "3", "--values", "20", "--vocabulary", "40", "--test-size", "200", "--width", "16"]
FLAGS += [
    "--init",
    "matched",
    "--seeds",
    "2",
    "--batch",
    "16",
    "--lr",
    "0.01",
    "--warmup-steps",
    "4",
    "--device",
    "cpu",
]


class Stop(Exception):
    pass


def stop_after(step):
    def watch(progress):
        if progress.step >= step:
            raise Stop

    return watch


def same_weights(first: Path, second: Path) -> bool:
    a, b = (load_tensors(path / "weights.safetensors")[0] for path in (first, second))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def copied(whole, tmp_path) -> Path:
    target = tmp_path / "needle" / whole.path.name
    shutil.copytree(whole.path, target)
    return target


def train_whole(tmp_path_factory) -> ice.TrainedRun:
    """A run that nothing has happened to."""
    return ice.train(TASK, MODEL, out=tmp_path_factory.mktemp("whole"), **SHORT)


def run_json(capsys, *arguments) -> dict:
    assert main([str(argument) for argument in arguments]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])
