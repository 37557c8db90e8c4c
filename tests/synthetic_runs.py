"""Thousands of made-up runs on disk, for tests of pages."""

import json
import math
from pathlib import Path
from typing import Any

from icecore.sweeps.cells import setting_of
from icecore.training.identity import name_of

ROWS = 40  # of metrics per run


def config_of(width: int, lr: float, seed: int, task: str = "needle") -> dict[str, Any]:
    optimization = {"steps": 1000, "batch": 32, "lr": lr, "weight_decay": 0.0, "warmup_steps": 5}
    optimization |= {"schedule": "cosine", "clip": 1.0}
    return {
        "task": {"name": task, "version": 1, "settings": {"max_pairs": 4}},
        "model": {"name": "transformer", "settings": {"width": width, "layers": 2, "heads": 4}},
        "positions": 9,
        "trainable": "embeddings",
        "optimization": optimization,
        "seeds": [seed],
        "data_seed": 0,
        "precision": "fp32",
    }


def result_of(width: int, seed: int) -> dict[str, Any]:
    accuracy = 1 - 1 / (1 + width / 32) - 0.01 * (seed % 5)
    return {
        "accuracy": [accuracy],
        "loss": [1 - accuracy],
        "seeds": [seed],
        "baselines": {"chance": 0.25},
        "trained_parameters": 100,
        "frozen_parameters": 1000,
        "steps": 1000,
        "seconds": 1.5,
        "device": "cpu",
        "commit": "0123456789ab",
        "command": "icecore train needle",
    }


def write_run(folder: Path, config: dict[str, Any], result: dict[str, Any]) -> Path:
    """Write a run as `icecore train` does, apart from the weights' content."""
    path = folder / config["task"]["name"].strip("<>/") / name_of(config)
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    rows = [{"step": 25 * (row + 1), "loss": [math.exp(-row / 10)]} for row in range(ROWS)]
    rows[-1]["accuracy"] = result["accuracy"]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (path / "weights.safetensors").write_bytes(b"")
    (path / "result.json").write_text(json.dumps(result))
    return path


def record_of(config: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    shared = {name: value for name, value in result.items() if not isinstance(value, list)}
    numbers = {"accuracy": result["accuracy"][0], "loss": result["loss"][0], "seed": result["seeds"][0]}
    return {"run": name_of(config), "setting": setting_of(config), **numbers, **shared, "config": config}
