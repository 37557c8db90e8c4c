"""The examples that look at stored weights say what the docs say of them."""

import runpy
from pathlib import Path

import pytest
import torch
from small_runs import MODEL, SHORT, TASK

import icecore as ice
from icecore.cli import main
from icecore.tasks import Batch, ModularAddition

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("run", "follows"), [("9bbecfd247ab", True), ("7f9b576fbd0f", False)])
def test_the_query_looks_where_the_address_was_written(run, follows):
    """At width 512 the answer goes along; at 1024 layer 1 has copied the value too."""
    example = runpy.run_path(str(ROOT / "examples" / "patching.py"))
    runs = ice.load(ROOT / "results" / "weights" / "needle" / run, "cpu")
    found = example["exchanges"](runs, 0, items=40)
    assert found["nothing"].said[0] == found["two others"].said[0] == 1
    assert found["nothing"].looked_at[0] > 0.5
    moved = found["the asked value and the next"]
    assert moved.looked_at[1] > 0.3
    assert moved.looked_at[0] < 0.1
    assert (moved.said[1] > 0.6) is follows
    assert (moved.said[0] > 0.6) is not follows


def test_short_strings_are_balanced_where_the_question_mark_may_ask_for_it(capsys):
    example = runpy.run_path(str(ROOT / "examples" / "short_strings.py"))
    example["main"]([str(ROOT / "results" / "weights" / "parentheses" / "d4c9473a2cb0")])
    shown = capsys.readouterr().out
    for seed in range(3):
        assert f"seed {seed}, 6 characters, position 6: 0.0 and 1.0, 8: 1.0 and 1.0, 9: 0.0 and 1.0\n" in shown
        assert f"seed {seed}, 2 characters, position 2: 0.0 and 1.0, 8: 0.0 and 1.0, 9: 0.0 and 1.0\n" in shown


def test_an_answer_is_pooled_behind_what_is_read():
    example = runpy.run_path(str(ROOT / "examples" / "answered.py"))
    tokens = torch.tensor([[1, 2, 3], [4, 5, 0]])
    scored = torch.tensor([[False, True, True], [False, True, False]])
    found = example["with_answer"](Batch(tokens, torch.tensor([[0, 6, 7], [0, 8, 0]]), scored))
    assert found.tokens.tolist() == [[1, 2, 3, 7], [4, 5, 8, 0]]
    assert found.lengths.tolist() == [4, 3]


def test_what_is_pooled_with_the_answer_is_told_apart_from_what_is_without():
    example = runpy.run_path(str(ROOT / "examples" / "answered.py"))
    task, model = ModularAddition(modulus=31), ice.Transformer(width=32)
    runs = ice.train(task, model, steps=1, batch=8, warmup_steps=0)
    shares = example["answered"](model, runs.parameters(0), task.test_set())
    own = ice.analysis.explained(ice.analysis.moments_of(model, runs.parameters(0), task.test_set())["final"])
    assert shares["final, directions, read"] == pytest.approx(100 * own.directions)
    assert shares["final, directions, answered"] < shares["final, directions, read"] < 100  # one more position differs


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A run and the folder of its export."""
    folder = tmp_path_factory.mktemp("exported")
    run = ice.train(TASK, MODEL, out=folder / "runs", **SHORT)
    assert main(["export", str(run.path), str(folder / "gpt2")]) == 0
    return run, str(folder / "gpt2")


def test_the_heads_of_the_lens_example_are_those_of_analyze(exported):
    run, _ = exported
    example = runpy.run_path(str(ROOT / "examples" / "lens.py"))
    batch = TASK.test_set()[: example["ITEMS"]]
    values = MODEL.trace(run.parameters(0), batch.tokens)
    found = example["query_to_value"](TASK, batch, [values[f"block{layer}.attention"] for layer in range(2)])
    assert found.shape == (2, 4)
    analyzed = ice.analyze(run, "attention", items=len(batch)).numbers["attention"]["trained"]["query_to_value"]
    assert found.flatten().tolist() == pytest.approx([score for layer in analyzed for score in layer], abs=1e-6)


@pytest.mark.parametrize(("library", "extra"), [("transformer_lens", "lens"), ("nnsight", "nnsight")])
def test_other_libraries_find_the_same_heads(exported, library, extra):
    pytest.importorskip(library, reason=f"needs the extra {extra}")
    run, folder = exported
    found = runpy.run_path(str(ROOT / "examples" / "lens.py"))["main"](str(run.path), folder)
    assert torch.allclose(found[library].double(), found["icecore"], atol=1e-6)
