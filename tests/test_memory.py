"""Memory of a run: estimated before anything is allocated, and refused in one line."""

import pytest
import torch

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.training import config_of, memory

CPU = torch.device("cpu")
EIGHT_GB = 8 * 10**9
SMALL = ice.tasks.Needle(max_pairs=3, values=9, vocabulary=20, test_size=8)


def config(task=SMALL, width=8, trainable="embeddings", seeds=1, **training):
    return config_of(task, ice.Transformer(width=width), trainable, seeds, steps=2, warmup_steps=1, **training)


def refusal(run):
    with pytest.raises(InputError) as error:
        memory.require_memory(run, CPU, free=EIGHT_GB)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_absurd_sizes_are_refused_with_the_flag_to_lower():
    many = ice.tasks.Needle(test_size=1_000_000)
    assert "lower --batch" in refusal(config(ice.tasks.Needle(), 64, batch=1_000_000))
    assert "parameters" in refusal(config(width=8192, batch=1))
    assert "--vocabulary" in refusal(config(ice.tasks.Needle(vocabulary=10_000_000), 64, batch=16))
    with pytest.raises(InputError, match=r"test set 1.0 GB.*--test-size, or use --force"):
        memory.require_memory(config(many, batch=16), CPU, free=EIGHT_GB // 8)


def test_small_runs_and_the_laptop_recipe_are_not_refused():
    for run in (config(), config(ice.tasks.Needle(), 128, "all", seeds=3, batch=1000)):
        memory.require_memory(run, CPU, free=EIGHT_GB)


def test_parameters_and_optimizer_are_counted():
    run = config(trainable="all", seeds=3)
    trained, frozen = run.parameter_counts
    assert frozen == 0
    found = memory.estimate(run, CPU)
    assert found["parameters"] == 3 * 4 * trained
    assert found["optimizer"] == 3 * 4 * 4 * trained


def test_parts_of_a_batch_divide_activations():
    run = config(batch=64)
    whole, parts = (memory.estimate(run, CPU, parts)["activations"] for parts in (1, 4))
    assert whole == 4 * parts > 0


def test_training_is_refused_before_a_folder_is_made_and_forced_on_request(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda _: 1000)
    settings = {"steps": 2, "warmup_steps": 1, "batch": 4, "device": "cpu", "out": tmp_path}
    with pytest.raises(InputError, match=r"0.0 GB are free"):
        ice.train(SMALL, ice.Transformer(width=8), **settings)
    assert not list(tmp_path.iterdir())
    made = ice.train(SMALL, ice.Transformer(width=8), force=True, **settings)
    again = ice.train(SMALL, ice.Transformer(width=8), **settings)
    assert made.path == again.path, "a complete run is loaded, whatever is free"


def test_force_is_a_flag(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(memory, "free_memory", lambda _: 1000)
    task = ["--max-pairs", "2", "--values", "9", "--vocabulary", "20", "--test-size", "8", "--steps", "2"]
    words = ["compare", "needle", *task, "--widths", "8", "--seeds", "1", "--batch", "4", "--trainable", "embeddings"]
    words += ["--device", "cpu", "--warmup-steps", "1", "--out", str(tmp_path)]
    assert main(words) == 2
    assert "or use --force" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0


def test_free_memory_is_the_least_that_the_system_names(tmp_path, monkeypatch):
    limit, used = tmp_path / "limit", tmp_path / "used"
    limit.write_text("5000\n")
    used.write_text("2000\n")
    monkeypatch.setattr(memory, "CGROUPS", ((limit, used),))
    assert memory.free_memory(CPU) == 3000
    limit.write_text("max\n")
    monkeypatch.setattr(memory, "available", lambda: 7000)
    assert memory.free_memory(CPU) == 7000
